#include "kernels/source_scan.hpp"

#include <algorithm>
#include <cctype>
#include <initializer_list>

namespace tack_sim {

namespace {

struct Token {
    std::string_view text;
    std::size_t at;
    int line;
};

bool starts_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_word(char c) { return starts_word(c) || std::isdigit(static_cast<unsigned char>(c)); }

/// Words, literals and single other characters; no comments and no preprocessor lines.
std::vector<Token> tokenize(std::string_view s) {
    std::vector<Token> tokens;
    int line = 1;
    bool line_is_empty = true;
    std::size_t at = 0;
    const auto skip_to = [&](std::size_t end) {
        end = std::min(end, s.size());
        line += static_cast<int>(std::count(s.begin() + static_cast<std::ptrdiff_t>(at),
                                            s.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
        at = end;
    };
    const auto end_of_line = [&](std::size_t from) {
        std::size_t end = s.find('\n', from);
        while (end != s.npos && end > 0 && s[end - 1] == '\\') end = s.find('\n', end + 1);
        return end;
    };
    while (at < s.size()) {
        const char c = s[at];
        if (c == '\n') line_is_empty = true;
        if (std::isspace(static_cast<unsigned char>(c))) {
            skip_to(at + 1);
            continue;
        }
        if (s.substr(at, 2) == "//" || (c == '#' && line_is_empty)) {
            skip_to(end_of_line(at));
            continue;
        }
        if (s.substr(at, 2) == "/*") {
            const std::size_t end = s.find("*/", at + 2);
            skip_to(end == s.npos ? end : end + 2);
            continue;
        }
        line_is_empty = false;
        std::size_t end = at + 1;
        if (is_word(c)) {
            while (end < s.size() && is_word(s[end])) ++end;
        } else if (c == '"' || c == '\'') {
            while (end < s.size() && s[end] != c) end += s[end] == '\\' ? 2 : 1;
            end = std::min(end + 1, s.size());
        }
        tokens.push_back({s.substr(at, end - at), at, line});
        skip_to(end);
    }
    return tokens;
}

/// A range of tokens: one declaration, without its body.
using Tokens = std::vector<Token>;

bool has(const Tokens& tokens, std::initializer_list<std::string_view> words) {
    return std::any_of(tokens.begin(), tokens.end(), [&](const Token& t) {
        return std::find(words.begin(), words.end(), t.text) != words.end();
    });
}

class Scanner {
public:
    Scanner(std::string_view source, const ScanRules& rules)
        : tokens_(tokenize(source)), rules_(rules) {
        scan_.text = source;
    }

    Scan run() {
        scan_words();
        rewrite_dynamic_shared();
        while (next_ < tokens_.size()) declaration();
        return std::move(scan_);
    }

private:
    void error(const Token& token, std::string text) {
        scan_.errors.push_back({token.line, std::move(text)});
    }

    bool is_refused(std::string_view word) const {
        if (word == "__int128") return !rules_.has_int128;
        if (word.starts_with("__builtin_"))
            return std::find(rules_.known_builtins.begin(), rules_.known_builtins.end(), word) ==
                   rules_.known_builtins.end();
        return word == "_Float16" || word == "__float128" || word == "thread_local" ||
               word == "__asm__" || word.starts_with("__atomic_") || word.starts_with("__sync_");
    }

    void scan_words() {
        for (std::size_t i = 0; i < tokens_.size(); ++i) {
            const Token& t = tokens_[i];
            if (t.text == "__syncthreads") scan_.uses_barriers = true;
            if (is_refused(t.text))
                error(t, "'" + std::string(t.text) + "' is not known to device code");
            // __shared__ stands for static already.
            if (t.text == "__shared__" && i > 0 && tokens_[i - 1].text == "static")
                scan_.text.replace(tokens_[i - 1].at, 6, 6, ' ');
        }
    }

    /// `extern __shared__ T name[];` becomes a pointer to the launch's memory.
    void rewrite_dynamic_shared() {
        for (std::size_t i = tokens_.size(); i-- > 0;) {
            if (tokens_[i].text != "extern") continue;
            std::size_t end = i;
            while (end < tokens_.size() && tokens_[end].text != ";" && tokens_[end].text != "{")
                ++end;
            const Tokens all(tokens_.begin() + static_cast<std::ptrdiff_t>(i),
                             tokens_.begin() + static_cast<std::ptrdiff_t>(end));
            if (!has(all, {"__shared__"}) || all.size() < 6 || all.back().text != "]") continue;
            std::string type;
            for (std::size_t k = 0; k + 3 < all.size(); ++k) {
                if (all[k].text == "__align__" || all[k].text == "alignas")
                    while (all[k].text != ")" && k + 3 < all.size()) ++k;
                else if (all[k].text != "extern" && all[k].text != "__shared__")
                    type += std::string(all[k].text) + " ";
            }
            const std::string name(all[all.size() - 3].text);
            const std::size_t start = all.front().at, stop = all.back().at + 1;
            const auto lines =
                std::count(scan_.text.begin() + static_cast<std::ptrdiff_t>(start),
                           scan_.text.begin() + static_cast<std::ptrdiff_t>(stop), '\n');
            scan_.text.replace(start, stop - start,
                               type + "*const " + name + " = (" + type +
                                   "*)tack_sim::dynamic_shared()" +
                                   std::string(static_cast<std::size_t>(lines), '\n'));
        }
    }

    void skip_braces() {
        int depth = 0;
        while (next_ < tokens_.size()) {
            const std::string_view t = tokens_[next_++].text;
            if (t == "{") ++depth;
            if (t == "}" && --depth <= 0) return;
        }
    }

    /// The next declaration at namespace scope, or a scope's beginning or end.
    void declaration() {
        Tokens d;
        int parentheses = 0;
        bool initialized = false;
        for (;;) {
            if (next_ == tokens_.size()) return;
            const Token& t = tokens_[next_];
            if (t.text == "(") ++parentheses;
            if (t.text == ")") --parentheses;
            if (parentheses == 0) {
                if (t.text == "}" && d.empty()) {
                    ++next_;
                    return;
                }
                if (t.text == ";") {
                    ++next_;
                    break;
                }
                initialized = initialized || t.text == "=";
                if (t.text == "{") {
                    if (has(d, {"namespace"}) || (d.size() == 2 && d[0].text == "extern")) {
                        ++next_;
                        return;
                    }
                    skip_braces();
                    if (!initialized && is_function(d)) break;
                    continue;
                }
            }
            d.push_back(t);
            ++next_;
        }
        if (!d.empty()) check(d);
    }

    static bool is_type_or_name(const Tokens& d) {
        const std::string_view first = d.front().text;
        return first == "using" || first == "typedef" || first == "static_assert" ||
               first == "struct" || first == "class" || first == "union" || first == "enum" ||
               first == "friend";
    }

    static bool is_function(const Tokens& d) {
        if (d.empty() || is_type_or_name(d)) return false;
        int depth = 0;
        for (const Token& t : d) {
            if (t.text == "(" && depth == 0) return true;
            if (t.text == "=" && depth == 0) return false;
        }
        return false;
    }

    /// The word before the last parentheses: macros and attributes come before it.
    static const Token* function_name(const Tokens& d) {
        int depth = 0;
        for (std::size_t i = d.size(); i-- > 1;) {
            if (d[i].text == ")") ++depth;
            if (d[i].text == "(" && --depth == 0) return &d[i - 1];
        }
        return nullptr;
    }

    static const Token* variable_name(const Tokens& d) {
        const Token* name = nullptr;
        for (const Token& t : d) {
            if (t.text == "=" || t.text == "[") break;
            if (starts_word(t.text[0])) name = &t;
        }
        return name;
    }

    void check(const Tokens& d) {
        const bool is_template = d.front().text == "template";
        if (is_type_or_name(d)) return;
        if (is_function(d)) {
            const Token* name = function_name(d);
            if (!name) return;
            if (has(d, {"__global__"})) {
                if (!is_template) add(scan_.kernels, *name);
            } else if (!rules_.device_by_default && !has(d, {"__device__"})) {
                error(*name, "the function '" + std::string(name->text) +
                                 "' is the host's without __device__ or __global__");
            }
            return;
        }
        const Token* name = variable_name(d);
        if (!name || is_template || has(d, {"extern"})) return;
        if (has(d, {"__device__", "__constant__"}))
            add(scan_.variables, *name);
        else if (!rules_.device_by_default && !has(d, {"const", "constexpr", "__shared__"}))
            error(*name, "the variable '" + std::string(name->text) +
                             "' is the host's without __device__ or __constant__");
    }

    static void add(std::vector<std::string>& names, const Token& name) {
        if (std::find(names.begin(), names.end(), name.text) == names.end())
            names.emplace_back(name.text);
    }

    std::vector<Token> tokens_;
    const ScanRules& rules_;
    std::size_t next_ = 0;
    Scan scan_;
};

}  // namespace

Scan scan_source(std::string_view source, const ScanRules& rules) {
    return Scanner(source, rules).run();
}

}  // namespace tack_sim
