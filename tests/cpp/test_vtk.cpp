// tack/vtk.hpp: types, shapes, refusals, and a VTK pipeline over Tack's memory.
#include "tack/vtk.hpp"

#include <gtest/gtest.h>
#include <vtkBitArray.h>
#include <vtkContourFilter.h>
#include <vtkDoubleArray.h>
#include <vtkFloatArray.h>
#include <vtkIdTypeArray.h>
#include <vtkImageData.h>
#include <vtkInformation.h>
#include <vtkLookupTable.h>
#include <vtkNew.h>
#include <vtkPointData.h>
#include <vtkPolyData.h>
#include <vtkSOADataArrayTemplate.h>
#include <vtkUnsignedCharArray.h>

#include <cmath>

#include "support.hpp"
#include "tack/kernel.hpp"

namespace tack {
namespace {

using test::expect_error;

vtkSmartPointer<vtkDataArray> new_array(int type) {
    return vtkSmartPointer<vtkDataArray>::Take(vtkDataArray::CreateDataArray(type));
}

struct TypePair {
    int vtk;
    DType dtype;
};
struct EveryType : testing::TestWithParam<TypePair> {};

TEST_P(EveryType, of_vtk_is_imported_as_the_dtype_of_its_size) {
    const auto source = new_array(GetParam().vtk);
    source->SetNumberOfComponents(3);
    source->SetNumberOfTuples(4);
    source->SetComponent(2, 1, 7);
    const Array array = vtk::to_array(source);
    EXPECT_EQ(array.dtype(), GetParam().dtype);
    EXPECT_EQ(array.shape(), (Shape{4, 3}));
    EXPECT_EQ(array.ptr(), source->GetVoidPointer(0));
    fill(const_cast<Array&>(array), 5.0);
    EXPECT_EQ(source->GetComponent(3, 2), 5);
}
INSTANTIATE_TEST_SUITE_P(
    , EveryType,
    testing::Values(TypePair{VTK_CHAR, DType::int8}, TypePair{VTK_SIGNED_CHAR, DType::int8},
                    TypePair{VTK_UNSIGNED_CHAR, DType::uint8}, TypePair{VTK_SHORT, DType::int16},
                    TypePair{VTK_UNSIGNED_SHORT, DType::uint16}, TypePair{VTK_INT, DType::int32},
                    TypePair{VTK_UNSIGNED_INT, DType::uint32}, TypePair{VTK_LONG, DType::int64},
                    TypePair{VTK_UNSIGNED_LONG, DType::uint64},
                    TypePair{VTK_LONG_LONG, DType::int64},
                    TypePair{VTK_UNSIGNED_LONG_LONG, DType::uint64},
                    TypePair{VTK_ID_TYPE, DType::int64}, TypePair{VTK_FLOAT, DType::float32},
                    TypePair{VTK_DOUBLE, DType::float64}),
    [](const auto& row) { return "number_" + std::to_string(row.param.vtk); });

struct EveryDType : testing::TestWithParam<DType> {};

TEST_P(EveryDType, of_tack_that_vtk_has_is_the_same_memory_there) {
    const Array array = full({2, 3}, 9.0, GetParam());
    const auto result = vtk::from_array(array, 3, "values");
    EXPECT_EQ(result->GetVoidPointer(0), array.ptr());
    EXPECT_EQ(result->GetNumberOfTuples(), 2);
    EXPECT_EQ(result->GetNumberOfComponents(), 3);
    EXPECT_STREQ(result->GetName(), "values");
    EXPECT_EQ(result->GetComponent(1, 2), 9);
    EXPECT_EQ(vtk::to_array(result).dtype(), GetParam());
}
INSTANTIATE_TEST_SUITE_P(, EveryDType,
                         testing::Values(DType::int8, DType::int16, DType::int32, DType::int64,
                                         DType::uint8, DType::uint16, DType::uint32, DType::uint64,
                                         DType::float32, DType::float64));

TEST(ToArray, one_component_gives_one_dimension) {
    vtkNew<vtkFloatArray> source;
    source->SetNumberOfTuples(5);
    EXPECT_EQ(vtk::to_array(source).shape(), Shape{5});
}

TEST(ToArray, capacity_beyond_the_tuples_is_not_part_of_the_shape) {
    vtkNew<vtkFloatArray> source;
    source->Allocate(100);
    for (float value : {1.0f, 2.0f, 3.0f}) source->InsertNextValue(value);
    EXPECT_EQ(vtk::to_array(source).shape(), Shape{3});
}

TEST(ToArray, an_empty_array_keeps_its_components) {
    vtkNew<vtkDoubleArray> source;
    source->SetNumberOfComponents(3);
    EXPECT_EQ(vtk::to_array(source).shape(), (Shape{0, 3}));
}

TEST(ToArray, names_attributes_and_modification_time_stay) {
    vtkNew<vtkLookupTable> table;
    vtkNew<vtkFloatArray> source;
    source->SetName("velocity");
    source->SetNumberOfComponents(2);
    source->SetComponentName(1, "v");
    source->SetNumberOfTuples(4);
    source->SetLookupTable(table);
    source->GetInformation()->Set(vtkDataArray::UNITS_LABEL(), "m/s");
    const vtkMTimeType before = source->GetMTime();
    const Array array = vtk::to_array(source);
    EXPECT_STREQ(source->GetName(), "velocity");
    EXPECT_EQ(source->GetComponentName(0), nullptr);
    EXPECT_STREQ(source->GetComponentName(1), "v");
    EXPECT_EQ(source->GetLookupTable(), table);
    EXPECT_STREQ(source->GetInformation()->Get(vtkDataArray::UNITS_LABEL()), "m/s");
    EXPECT_EQ(source->GetMTime(), before);
}

TEST(ToArray, null_is_a_value_error) {
    expect_error(ErrorKind::value, {"to_array", "null"}, [] { vtk::to_array(nullptr); });
}

TEST(ToArray, a_bit_array_is_a_type_error) {
    vtkNew<vtkBitArray> bits;
    bits->SetNumberOfTuples(8);
    expect_error(ErrorKind::type, {"to_array", "type number 1"}, [&] { vtk::to_array(bits); });
}

TEST(ToArray, a_structure_of_arrays_is_a_value_error_naming_deep_copy) {
    vtkNew<vtkSOADataArrayTemplate<float>> source;
    source->SetNumberOfComponents(2);
    source->SetNumberOfTuples(3);
    expect_error(ErrorKind::value, {"to_array", "one after another", "DeepCopy()"},
                 [&] { vtk::to_array(source); });
}

TEST(FromArray, no_values_give_no_tuples_of_the_components) {
    const auto result = vtk::from_array(empty({0, 3}), 3, "none");
    EXPECT_EQ(result->GetNumberOfTuples(), 0);
    EXPECT_EQ(result->GetNumberOfComponents(), 3);
}

TEST(FromArray, components_must_be_positive_and_divide_the_size) {
    for (const int components : {0, -1, 4})
        expect_error(ErrorKind::value,
                     {"from_array", "6 values", std::to_string(components) + " components"},
                     [&] { vtk::from_array(empty({6}), components, "x"); });
}

TEST(FromArray, a_dtype_that_vtk_lacks_is_a_type_error) {
    for (const DType dtype : {DType::bool_, DType::float16, DType::bfloat16})
        expect_error(ErrorKind::type, {"from_array", std::string(name(dtype)), "float32"},
                     [&] { vtk::from_array(empty({6}, dtype), 1, "x"); });
}

TEST(FromArray, a_read_only_array_is_a_value_error_naming_copy) {
    const float values[4] = {};
    const Array array = array_from_ptr(&values[0], DType::float32, {4});
    expect_error(ErrorKind::value, {"from_array", "read-only", "copy()"},
                 [&] { vtk::from_array(array, 1, "x"); });
}

TEST(FromArray, a_device_s_memory_is_a_runtime_error_naming_to_device) {
    const Array array = empty({4}, DType::float32, test::far_device());
    expect_error(ErrorKind::runtime, {"from_array", "on cuda", "to_device(\"cpu\")"},
                 [&] { vtk::from_array(array, 1, "x"); });
}

TEST(Pipeline, a_kernel_s_field_is_contoured_where_the_kernel_put_it) {
    constexpr int n = 32;
    Array field = empty({n, n, n});
    const Kernel distance("distance", [](Out<float> out, Scalar<float> centre) {
        parallel(out.shape(0), out.shape(1), out.shape(2), [&](Index k, Index j, Index i) {
            const Expr x = i - centre, y = j - centre, z = k - centre;
            out(k, j, i) = sqrt(x * x + y * y + z * z);
        });
    });
    vtkNew<vtkImageData> image;
    image->SetDimensions(n, n, n);
    image->GetPointData()->SetScalars(vtk::from_array(field, 1, "distance"));
    distance(field, 15.5f);
    vtkNew<vtkContourFilter> contour;
    contour->SetInputData(image);
    contour->SetValue(0, 10.0);
    contour->Update();
    vtkPolyData* surface = contour->GetOutput();
    ASSERT_GT(surface->GetNumberOfPoints(), 1000);
    for (vtkIdType p = 0; p < surface->GetNumberOfPoints(); ++p) {
        const double* at = surface->GetPoint(p);
        EXPECT_NEAR(std::hypot(at[0] - 15.5, at[1] - 15.5, at[2] - 15.5), 10.0, 0.05);
    }

    // and back: VTK's own result is a kernel's argument in place
    const Array points = vtk::to_array(surface->GetPoints()->GetData());
    const Kernel twice("twice", [](InOut<float> x) {
        parallel(x.shape(0), 3, [&](Index i, Index c) { x(i, c) *= 2.0; });
    });
    const double before = surface->GetPoint(7)[1];
    twice(points);
    EXPECT_DOUBLE_EQ(surface->GetPoint(7)[1], 2 * before);
}

TEST(Pipeline, modified_makes_ranges_and_filters_see_a_kernel_s_writes) {
    Array field = zeros({8});
    const auto values = vtk::from_array(field, 1, "values");
    EXPECT_EQ(values->GetRange()[1], 0);
    fill(field, 3.0);
    EXPECT_EQ(values->GetRange()[1], 0);  // VTK's cache
    values->Modified();
    EXPECT_EQ(values->GetRange()[1], 3);
}

}  // namespace
}  // namespace tack
