"""The backends that the suites run on, and the one table of what they leave out, with reasons.

A module whose tests run on every backend says `pytestmark = pytest.mark.usefixtures("backend")`.
"""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path

BUILD = Path(os.environ.get("TACK_BUILD") or Path(__file__).parents[2] / "build")

BACKENDS = ["cpu", "cuda"]

DLPACK_DEVICE = {"cpu": 1, "cuda": 2}

# For each backend whose driver is simulated: what puts the simulator in the driver's place.
SIMULATORS = {
    "cuda": {
        "TACK_CUDA_DRIVER": BUILD / "sim" / "cuda" / "libcuda.so.1",
        "TACK_NVRTC": BUILD / "sim" / "cuda" / "libnvrtc.so.13",
        "TACK_SIM_CACHE": BUILD / "cache" / "sim",
        # In the tests' kernel cache, to be gone with that alone.
        "TACK_SIM_SOURCES": BUILD / "cache" / "tests" / "sources",
        # A device has these as long as the process lives, and kernels theirs. What else is alive
        # at exit makes the exit status 97, as do violations.
        "TACK_SIM_KEEP": "stream,memory pool,module",
    },
}


def real_gpu():
    return bool(os.environ.get("TACK_TEST_REAL_GPU"))


def simulate():
    """Puts the simulators in the drivers' place, unless TACK_TEST_REAL_GPU asks for the real ones.

    What the environment names already is kept. Before the first use of a backend.
    """
    if real_gpu():
        return
    for backend in BACKENDS:
        for name, value in SIMULATORS.get(backend, {}).items():
            os.environ.setdefault(name, str(value))


# What is left out: for each kind of backend and reason the tests, as patterns of fnmatch. A pattern
# with a bracket is one of names with their parameters. Kinds: "devices" is every backend but the
# CPU, "simulated" those of them whose driver is simulated.
SKIPS = {
    ("devices", "is about a view of the host's, which reaches no device's memory"): """
        test_array::test_numpy_is_a_view_of_the_same_memory
        test_array::test_a_view_*
        test_array::test_array_protocol_follows_numpys_copy_rules
        test_array::test_array_interface_describes_host_memory
        test_array::test_the_buffer_has_numpys_format
        test_array::test_a_live_view_keeps_the_array_alive
        test_array::test_a_writable_buffer_of_a_read_only_array_is_refused
        test_array::test_bfloat16_reaches_numpy_through_ml_dtypes
        test_array::test_bfloat16_has_bytes_but_no_buffer_format
        test_array::test_repr_shows_shape_dtype_device_and_elements
        test_array::test_repr_of_a_long_array_is_short_and_shows_the_ends
        test_asarray::test_a_read_only_array_stays_so
        test_dlpack::test_numpys_view_of_a_read_only_array_is_read_only
        test_dlpack::test_a_consumer_keeps_the_array_alive_until_it_is_done
        test_dlpack_lifetime::test_pins_return_to_the_baseline_from_threads[*by numpy*]
        test_dlpack_machine::test_many_round_trips_leave_resident_memory_flat[*-numpy]
        test_dlpack_machine::test_many_round_trips_leave_resident_memory_flat[*-buffers]
        test_dlpack_machine::test_many_round_trips_leave_resident_memory_flat[*-array interface]
        test_dlpack_machine::test_many_round_trips_leave_resident_memory_flat[*-refusals]
        test_dlpack_rules::test_numpys_copy_and_device_arguments
        test_imports_in_place::test_numpy_gives_the_array_*
        test_imports_in_place::test_a_numpy_view_keeps_the_array
        test_specification::test_mechanism_dlpack_export_is_zero_copy_*
    """,
    ("devices", "is about memory of the host's"): """
        test_array::test_an_exportable_array_is_refused_on_the_cpu
        test_borrowed_arguments::*
        test_dlpack::test_an_import_shares_memory_and_keeps_dtype_and_shape
        test_dlpack::test_every_shape_and_dtype_goes_there_and_back
        test_dlpack::test_the_source_may_be_dropped_at_once
        test_dlpack::test_a_read_only_numpy_array_arrives_read_only
        test_dlpack::test_a_legacy_capsule_*
        test_dlpack::test_copy_takes_any_strides
        test_dlpack::test_copy_of_a_read_only_source_is_writable
        test_dlpack::test_copy_gathers_from_hand_made_strides
        test_dlpack::test_copy_keeps_bfloat16
        test_dlpack::test_copy_consumes_a_bare_capsule_and_gives_the_tensor_back
        test_dlpack::test_copy_refuses_what_no_array_can_hold
        test_dlpack::test_copy_of_an_array_of_tacks_own_leaves_no_export
        test_dlpack::test_pytorch*
        test_dlpack::test_non_contiguous_is_both_a_value_error_and_a_buffer_error
        test_dlpack_lifetime::test_a_pytorch_thread_may_drop_the_last_array
        test_dlpack_rules::test_the_device_is_the_host
        test_dlpack_rules::test_host_memory_of_any_id_is_the_host
        test_dlpack_rules::test_elements_of_another_byte_order_*
        test_dlpack_rules::test_strides_of_no_whole_elements_*
        test_dlpack_rules::test_what_is_not_contiguous_*
        test_dlpack_rules::test_many_dimensions_go_both_ways
        test_dlpack_rules::test_a_read_only_legacy_request_*
        test_dlpack_rules::test_a_writable_array_stays_writable_both_ways
        test_dlpack_rules::test_zero_dimensions_go_both_ways
        test_dlpack_rules::test_a_dimension_of_one_may_have_any_stride
        test_exchange::test_the_stream_of_the_host_is_null
        test_exchange::test_a_type_with_an_api_alone_is_shared_copied_and_explained
        test_exchange::test_a_pytorch_*
        test_exchange::test_what_the_error_says_to_call_works
        test_raw_pointer::test_an_address_that_is_not_mapped_is_refused
        test_raw_pointer::test_a_range_whose_last_page_*
        test_raw_pointer::test_pages_that_cannot_be_written_*
        test_specification::test_mechanism_from_dlpack_with_copy_true_is_a_copy
        test_specification::test_mechanism_export_memory_is_refused_by_the_host
        test_specification::test_handles_are_for_cuda_and_metal_*
        test_specification::test_failure_export_from_the_cpu
        test_specification::test_failure_integer_pointer_of_no_host_memory
        test_specification::test_device_types_of_host_memory_are_the_cpus
    """,
    ("devices", "is about the code that the host's compiler gets"): "",  # in backends.cpp alone
    ("devices", "is about a stand-in for a device, the same on every backend"): "",  # likewise
    ("devices", "is about a request without a stream, which devices ask for"): """
        test_dlpack::test_the_versioned_form_is_asked_for_first_exactly_so
    """,
    ("devices", "runs a program of its own, on the host"): """
        test_array::test_nothing_is_leaked_or_printed_at_exit
        test_dlpack::test_an_unadopted_capsule_is_released_at_interpreter_exit
        test_dlpack::test_an_import_alive_at_interpreter_exit_does_no_harm
        test_dlpack_lifetime::test_what_is_kept_until_the_interpreter_closes_does_no_harm
    """,
    ("devices", "is about the kernel as an object of Python's, on no backend"): """
        test_kernel_bounds::test_a_step_of_0_that_is_a_constant_*
        test_kernel_language::test_a_device_function_runs_as_python_*
        test_kernel_language::test_a_kernel_in_a_class_*
        test_kernel_language::test_a_kernel_may_have_other_decorators
        test_kernel_order::test_an_expression_without_effects_stays_one_expression
        test_kernel_programs::test_cpp_and_python_build_the_same_program
        test_kernel_random::test_a_mistake_*
        test_kernel_vectors::test_a_mistake_*
        test_kernel_vectors::test_an_element_of_a_vector_from_outside_*
        test_kernel_vectors::test_a_call_of_a_function_of_several_values_*
    """,
    ("devices", "how exact it is, its vendor says for part of its range alone"): """
        test_kernel_math::test_a_float*_function_*[*lgamma*]
    """,
    ("simulated", "takes minutes on a simulated device"): """
        test_launch::test_an_index_space_of_more_than_2_to_the_32_iterations_runs
    """,
}


def reason_to_skip(backend, module, test):
    """Why the table leaves a test out on a backend; None where it does not.

    test: the name with its parameters, as "test_x[cuda-int8]".
    """
    kinds = [backend]
    if backend != "cpu":
        kinds += ["devices"] if real_gpu() else ["devices", "simulated"]
    for (kind, reason), patterns in SKIPS.items():
        if kind in kinds and any(matches(module, test, p) for p in patterns.split("\n")):
            return reason
    return None


def matches(module, test, pattern):
    name = test if "[" in pattern else test.partition("[")[0]
    return fnmatch.fnmatchcase(f"{module}::{name}", pattern.strip().replace("[", "[[]"))
