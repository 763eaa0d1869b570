// The exchange of arrays of ten floats with VTK from C++: seconds for each of three ways.
#include <vtkFloatArray.h>

#include <chrono>
#include <cstdio>
#include <tack/vtk.hpp>
#include <vector>

template <class Body>
void figure(const char* name, int count, Body&& body) {
    const auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < count; ++k) body(k);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    std::printf("figure %s %.9g\n", name, time.count() / count);
}

int main() {
    constexpr int count = 20'000;
    const tack::Array array = tack::zeros({10});
    std::vector<vtkSmartPointer<vtkFloatArray>> sources(count);
    for (auto& source : sources) {
        source = vtkSmartPointer<vtkFloatArray>::New();
        source->SetNumberOfTuples(10);
    }
    figure("export", count, [&](int) { tack::vtk::from_array(array, 1, "x"); });
    figure("first", count, [&](int k) { tack::vtk::to_array(sources[k]); });
    figure("again", count, [&](int k) { tack::vtk::to_array(sources[k % 10]); });
}
