// tack/vtk.hpp: whichever side drops, moves or shares the memory first, the other goes on.
#include <gtest/gtest.h>
#include <vtkFloatArray.h>
#include <vtkNew.h>
#include <vtkPointData.h>
#include <vtkPolyData.h>
#include <vtkWeakPointer.h>

#include <functional>
#include <random>
#include <thread>

#include "tack/vtk.hpp"

namespace tack {
namespace {

/// A VTK array of 0, 1, 2, ...
vtkSmartPointer<vtkFloatArray> counting(int tuples, int components = 1) {
    auto result = vtkSmartPointer<vtkFloatArray>::New();
    result->SetNumberOfComponents(components);
    result->SetNumberOfTuples(tuples);
    for (vtkIdType k = 0; k < result->GetNumberOfValues(); ++k)
        result->SetValue(k, static_cast<float>(k));
    return result;
}

std::vector<float> count_to(int size) {
    std::vector<float> values(static_cast<std::size_t>(size));
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k);
    return values;
}

/// Counts what a foreign producer's memory sees: one call of its deleter.
struct Foreign {
    float values[4] = {1, 2, 3, 4};
    std::int64_t shape[1] = {4};
    int deleted = 0;
    dlpack::ManagedTensor managed{
        {values, {dlpack::cpu, 0}, 1, {dlpack::code_float, 32, 1}, shape, nullptr, 0},
        this,
        [](dlpack::ManagedTensor* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; }};
};

TEST(ImportedMemory, outlives_the_vtk_array) {
    auto source = counting(1000);
    const Array array = vtk::to_array(source).reshape({10, 100});
    source = nullptr;
    EXPECT_EQ(array.to_vector<float>(), count_to(1000));
}

TEST(ImportedMemory, is_let_go_with_the_last_array_and_vtk_goes_on) {
    const auto source = counting(1000);
    {
        const Array array = vtk::to_array(source);
    }
    EXPECT_EQ(source->GetValue(999), 999);
    source->InsertNextValue(1000);
    EXPECT_EQ(source->GetValue(1000), 1000);
}

TEST(ImportedMemory, does_not_keep_the_vtk_array_itself) {
    auto source = counting(8);
    const vtkWeakPointer<vtkFloatArray> watched = source.GetPointer();
    const Array array = vtk::to_array(source);
    source = nullptr;
    EXPECT_EQ(watched, nullptr);
}

TEST(ImportedMemory, stays_where_it_is_when_vtk_moves_the_array) {
    const std::function<void(vtkFloatArray&)> moves[] = {
        [](vtkFloatArray& a) { a.Resize(5000); },
        [](vtkFloatArray& a) { a.Resize(5); },
        [](vtkFloatArray& a) { a.InsertNextValue(1); },
        [](vtkFloatArray& a) { a.Squeeze(); },
        [](vtkFloatArray& a) { a.SetNumberOfTuples(3000); },
        [](vtkFloatArray& a) { a.Initialize(); },
        [](vtkFloatArray& a) { a.Allocate(9000); },
        [](vtkFloatArray& a) {
            const auto other = counting(2);
            a.ShallowCopy(other);
        },
    };
    for (const auto& move : moves) {
        const auto source = counting(1000);
        const Array array = vtk::to_array(source);
        move(*source);
        EXPECT_EQ(array.to_vector<float>(), count_to(1000));
    }
}

TEST(ImportedMemory, is_no_longer_shared_once_vtk_has_moved_it) {
    const auto source = counting(10);
    Array array = vtk::to_array(source);
    source->Resize(100);
    fill(array, -1.0);
    EXPECT_EQ(source->GetValue(3), 3);
    EXPECT_EQ(vtk::to_array(source).ptr(), source->GetVoidPointer(0));
}

TEST(ImportedMemory, outlives_every_array_that_shares_it_by_shallow_copy) {
    auto source = counting(100);
    vtkNew<vtkFloatArray> sharer;
    sharer->ShallowCopy(source);
    Array first = vtk::to_array(source);
    vtkNew<vtkFloatArray> later;
    later->ShallowCopy(source);
    source = nullptr;
    first = Array();
    EXPECT_EQ(sharer->GetValue(99), 99);
    EXPECT_EQ(later->GetValue(99), 99);
}

TEST(ImportedMemory, imported_again_has_one_owner) {
    const auto source = counting(100);
    const Array first = vtk::to_array(source);
    const auto* recognised = vtk::detail::Owners::instance().find(first.ptr()).get();
    for (int k = 0; k < 20'000; ++k) vtk::to_array(source);
    EXPECT_EQ(vtk::detail::Owners::instance().find(first.ptr()).get(), recognised);
    EXPECT_EQ(vtk::detail::Owners::instance().table.count(first.ptr()), 1u);
}

TEST(ExportedMemory, outlives_the_tack_array) {
    auto array = std::make_unique<Array>(full({8}, 4.0));
    const auto result = vtk::from_array(*array, 2, "x");
    array.reset();
    EXPECT_EQ(result->GetComponent(3, 1), 4);
}

TEST(ExportedMemory, is_let_go_once_when_vtk_drops_the_array) {
    Foreign foreign;
    auto result = vtk::from_array(from_dlpack(&foreign.managed), 1, "x");
    EXPECT_EQ(foreign.deleted, 0);
    result = nullptr;
    EXPECT_EQ(foreign.deleted, 1);
}

TEST(ExportedMemory, is_let_go_when_vtk_moves_the_array) {
    Foreign foreign;
    const auto result = vtk::from_array(from_dlpack(&foreign.managed), 1, "x");
    result->Resize(100);
    EXPECT_EQ(foreign.deleted, 1);
    EXPECT_EQ(result->GetComponent(3, 0), 4);
}

TEST(ExportedMemory, stays_while_a_shallow_copy_has_it) {
    Foreign foreign;
    vtkNew<vtkFloatArray> sharer;
    {
        const auto result = vtk::from_array(from_dlpack(&foreign.managed), 1, "x");
        sharer->ShallowCopy(result);
    }
    EXPECT_EQ(foreign.deleted, 0);
    EXPECT_EQ(sharer->GetValue(2), 3);
    sharer->Initialize();
    EXPECT_EQ(foreign.deleted, 1);
}

TEST(ExportedMemory, exported_twice_stays_until_both_are_dropped) {
    Foreign foreign;
    const Array array = from_dlpack(&foreign.managed);
    auto first = vtk::from_array(array, 1, "first");
    auto second = vtk::from_array(array.reshape({2, 2}), 2, "second");
    const_cast<Array&>(array) = Array();
    first = nullptr;
    EXPECT_EQ(foreign.deleted, 0);
    EXPECT_EQ(second->GetComponent(1, 1), 4);
    second = nullptr;
    EXPECT_EQ(foreign.deleted, 1);
}

TEST(ExportedMemory, imported_back_is_the_same_and_leaves_nothing_behind) {
    Foreign foreign;
    const auto& table = vtk::detail::Owners::instance().table;
    const std::size_t before = table.size();
    {
        const Array array = from_dlpack(&foreign.managed);
        const auto there = vtk::from_array(array, 1, "x");
        const Array back = vtk::to_array(there);
        EXPECT_EQ(back.ptr(), array.ptr());
        const auto again = vtk::from_array(back, 1, "y");
        EXPECT_EQ(table.size(), before + 2);
    }
    EXPECT_EQ(foreign.deleted, 1);
    EXPECT_EQ(table.size(), before);
}

TEST(ExportedMemory, cleared_and_filled_again_by_vtk_is_vtk_s_own) {
    Foreign foreign;
    {
        const auto result = vtk::from_array(from_dlpack(&foreign.managed), 1, "x");
        result->Initialize();
        result->SetNumberOfTuples(50);
        result->SetComponent(49, 0, 1);
        result->Initialize();
    }
    EXPECT_EQ(foreign.deleted, 1);
}

TEST(Lifetimes, ten_thousand_exchanges_each_way_leave_nothing) {
    const auto& table = vtk::detail::Owners::instance().table;
    const std::size_t before = table.size();
    const auto source = counting(10);
    const Array array = zeros({10});
    for (int k = 0; k < 10'000; ++k) {
        vtk::from_array(array, 1, "x");
        vtk::to_array(counting(10));
    }
    EXPECT_EQ(table.size(), before);
}

TEST(Lifetimes, threads_exchange_arrays_of_their_own_at_once) {
    const Array shared = full({64}, 2.0);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int k = 0; k < 500; ++k) {
                const auto there = vtk::from_array(shared, 1, "x");
                const Array back = vtk::to_array(there);
                ASSERT_EQ(back.ptr(), shared.ptr());
                const auto own = counting(16);
                const Array mine = vtk::to_array(own);
                own->Resize(64);
                ASSERT_EQ(mine.data<const float>()[15], 15);
            }
        });
    for (std::thread& thread : threads) thread.join();
}

TEST(Lifetimes, random_operations_in_any_order_keep_every_live_value) {
    std::mt19937 random(20260805);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    struct Imported {
        Array array;
        int size;
    };
    std::vector<vtkSmartPointer<vtkFloatArray>> sources;
    std::vector<Imported> arrays;
    for (int step = 0; step < 50'000; ++step) {
        if (sources.size() < 4) sources.push_back(counting(1 + static_cast<int>(below(300))));
        const std::size_t at = below(sources.size());
        const auto source = sources[at];
        const int size = static_cast<int>(source->GetNumberOfValues());
        switch (below(9)) {
            case 0:
            case 1:
                arrays.push_back({vtk::to_array(source), size});
                break;
            case 2:
                sources.erase(sources.begin() + static_cast<std::ptrdiff_t>(at));
                break;
            case 3:
                source->Squeeze();
                break;
            case 4:
                source->InsertNextValue(static_cast<float>(size));
                break;
            case 5: {
                // VTK's own: the sharers of a buffer that is resized lose it, so a whole swap
                auto other = vtkSmartPointer<vtkFloatArray>::New();
                other->DeepCopy(source);
                source->ShallowCopy(other);
                break;
            }
            case 6: {
                // one over Tack's memory in the place of VTK's
                const Array array = vtk::to_array(source);
                sources[at] = vtkFloatArray::SafeDownCast(vtk::from_array(array, 1, "x"));
                break;
            }
            case 7:
                source->Initialize();
                source->SetNumberOfTuples(size);
                for (vtkIdType k = 0; k < size; ++k) source->SetValue(k, static_cast<float>(k));
                break;
            default:
                if (!arrays.empty())
                    arrays.erase(arrays.begin() +
                                 static_cast<std::ptrdiff_t>(below(arrays.size())));
        }
        if (arrays.size() > 20) arrays.erase(arrays.begin());
        if (!arrays.empty()) {
            const Imported& one = arrays[below(arrays.size())];
            ASSERT_EQ(one.array.size(), one.size);
            ASSERT_EQ(one.array.data<const float>()[one.size - 1],
                      static_cast<float>(one.size - 1));
        }
    }
}

}  // namespace
}  // namespace tack
