/// Small vectors and matrices as variables of a kernel: Vec<T, N> and Mat<T, R, C>, up to 4 x 4.
///
///     tack::Vec<float, 3> d(x(i, 0) - x(j, 0), x(i, 1) - x(j, 1), x(i, 2) - x(j, 2));
///     d *= 1 / tack::length(d);
///     f(i, 0) += d[0];
///
/// Every component is a variable of dtype T. Operators act component by component; what they give
/// is converted to T. Copies are variables of their own.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "tack/kernel.hpp"

namespace tack {

template <class T, std::size_t N>
class Vec {
    static_assert(N >= 1 && N <= 16, "a Vec has 1 to 4 components, a Mat up to 4 x 4");

public:
    /// One number for each component.
    template <class... A>
        requires(sizeof...(A) == N && (std::is_convertible_v<const A&, Expr> && ...))
    explicit Vec(const A&... components) : components_{Var<T>(static_cast<Expr>(components))...} {}
    Vec(const Vec&) = default;

    Vec& operator=(const Vec& other) {
        for (std::size_t k = 0; k < N; ++k) components_[k] = other.components_[k];
        return *this;
    }

    /// A component, to use or to assign. k: known while the kernel is built.
    Var<T>& operator[](std::size_t k) { return components_[k]; }
    const Var<T>& operator[](std::size_t k) const { return components_[k]; }
    /// The component at an index that the kernel computes; 0 where there is none.
    Expr operator[](const Expr& k) const {
        Expr found(0);
        for (std::size_t j = N; j-- > 0;) found = select(k == position(j), components_[j], found);
        return found;
    }
    /// Assigns the component at an index that the kernel computes, where there is one.
    void set(const Expr& k, const Expr& value) {
        for (std::size_t j = 0; j < N; ++j)
            components_[j] = select(k == position(j), value, components_[j]);
    }

    /// The vector of f(k) for each component k.
    template <class F>
    static Vec each(F&& f) {
        return [&]<std::size_t... k>(std::index_sequence<k...>) {
            return Vec(static_cast<Expr>(f(k))...);
        }(std::make_index_sequence<N>());
    }

private:
    static Expr position(std::size_t k) { return Expr(static_cast<std::int64_t>(k)); }

    std::array<Var<T>, N> components_;
};

template <class T, std::size_t R, std::size_t C>
class Mat {
    static_assert(R >= 1 && R <= 4 && C >= 1 && C <= 4, "a Mat is up to 4 x 4");

public:
    /// One number for each component, row by row.
    template <class... A>
        requires(sizeof...(A) == R * C && (std::is_convertible_v<const A&, Expr> && ...))
    explicit Mat(const A&... components) : components_(components...) {}
    explicit Mat(const Vec<T, R * C>& components) : components_(components) {}

    Var<T>& operator()(std::size_t row, std::size_t column) {
        return components_[row * C + column];
    }
    const Var<T>& operator()(std::size_t row, std::size_t column) const {
        return components_[row * C + column];
    }
    Expr operator()(const Expr& row, const Expr& column) const {
        return components_[place(row, column)];
    }
    void set(const Expr& row, const Expr& column, const Expr& value) {
        components_.set(place(row, column), value);
    }
    /// The components row by row.
    const Vec<T, R * C>& components() const { return components_; }

private:
    static Expr place(const Expr& row, const Expr& column) {
        const Expr columns(static_cast<std::int64_t>(C));
        return select(column >= 0 && column < columns, row * columns + column, Expr(-1));
    }

    Vec<T, R * C> components_;
};

#define TACK_COMPONENTS(symbol)                                                  \
    template <class T, std::size_t N>                                            \
    Vec<T, N> operator symbol(const Vec<T, N>& a, const Vec<T, N>& b) {          \
        return Vec<T, N>::each([&](std::size_t k) { return a[k] symbol b[k]; }); \
    }                                                                            \
    template <class T, std::size_t N>                                            \
    Vec<T, N> operator symbol(const Vec<T, N>& a, const Expr& b) {               \
        return Vec<T, N>::each([&](std::size_t k) { return a[k] symbol b; });    \
    }                                                                            \
    template <class T, std::size_t N>                                            \
    Vec<T, N> operator symbol(const Expr& a, const Vec<T, N>& b) {               \
        return Vec<T, N>::each([&](std::size_t k) { return a symbol b[k]; });    \
    }                                                                            \
    template <class T, std::size_t N, class B>                                   \
    Vec<T, N>& operator symbol## = (Vec<T, N> & a, const B& b) {                 \
        return a = a symbol b;                                                   \
    }                                                                            \
    template <class T, std::size_t R, std::size_t C>                             \
    Mat<T, R, C> operator symbol(const Mat<T, R, C>& a, const Mat<T, R, C>& b) { \
        return Mat<T, R, C>(a.components() symbol b.components());               \
    }                                                                            \
    template <class T, std::size_t R, std::size_t C>                             \
    Mat<T, R, C> operator symbol(const Mat<T, R, C>& a, const Expr& b) {         \
        return Mat<T, R, C>(a.components() symbol b);                            \
    }                                                                            \
    template <class T, std::size_t R, std::size_t C>                             \
    Mat<T, R, C> operator symbol(const Expr& a, const Mat<T, R, C>& b) {         \
        return Mat<T, R, C>(a symbol b.components());                            \
    }                                                                            \
    template <class T, std::size_t R, std::size_t C, class B>                    \
    Mat<T, R, C>& operator symbol## = (Mat<T, R, C> & a, const B& b) {           \
        return a = a symbol b;                                                   \
    }
TACK_COMPONENTS(+)
TACK_COMPONENTS(-)
TACK_COMPONENTS(*)
TACK_COMPONENTS(/)
#undef TACK_COMPONENTS

template <class T, std::size_t N>
Vec<T, N> operator-(const Vec<T, N>& a) {
    return Vec<T, N>::each([&](std::size_t k) { return -a[k]; });
}
template <class T, std::size_t R, std::size_t C>
Mat<T, R, C> operator-(const Mat<T, R, C>& a) {
    return Mat<T, R, C>(-a.components());
}

/// The sum of products, added from the first component on.
template <class T, std::size_t N>
Expr dot(const Vec<T, N>& a, const Vec<T, N>& b) {
    Expr sum = a[0] * b[0];
    for (std::size_t k = 1; k < N; ++k) sum = sum + a[k] * b[k];
    return sum;
}
/// The Euclidean norm, sqrt(dot(a, a)).
template <class T, std::size_t N>
Expr length(const Vec<T, N>& a) {
    return sqrt(dot(a, a));
}
template <class T>
Vec<T, 3> cross(const Vec<T, 3>& a, const Vec<T, 3>& b) {
    return Vec<T, 3>(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2],
                     a[0] * b[1] - a[1] * b[0]);
}
/// Python's m @ v and m @ m.
template <class T, std::size_t R, std::size_t C>
Vec<T, R> matmul(const Mat<T, R, C>& m, const Vec<T, C>& v) {
    return Vec<T, R>::each([&](std::size_t r) {
        Expr sum = m(r, 0) * v[0];
        for (std::size_t c = 1; c < C; ++c) sum = sum + m(r, c) * v[c];
        return sum;
    });
}
template <class T, std::size_t R, std::size_t K, std::size_t C>
Mat<T, R, C> matmul(const Mat<T, R, K>& a, const Mat<T, K, C>& b) {
    return Mat<T, R, C>(Vec<T, R * C>::each([&](std::size_t at) {
        const std::size_t r = at / C;
        const std::size_t c = at % C;
        Expr sum = a(r, 0) * b(0, c);
        for (std::size_t k = 1; k < K; ++k) sum = sum + a(r, k) * b(k, c);
        return sum;
    }));
}

}  // namespace tack
