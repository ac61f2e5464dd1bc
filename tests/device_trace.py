"""A run on a GPU as torch's profiler hands it over, written by hand: for machines without one.

Names of kernels are those that torch 2.11 to 2.13 and its libraries have on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import EventList, FunctionEvent

F32, BF16 = torch.float32, torch.bfloat16


def operand(
    sizes: tuple[int, ...],
    dtype: torch.dtype = F32,
    strides: tuple[int, ...] | None = None,
    device: str = "cuda",
    id: int | None = None,
) -> SimpleNamespace:
    """A tensor argument as kineto describes it; contiguous where no strides are given."""
    strides = strides or torch.empty(sizes, device="meta").stride()
    where = torch.device(device)
    return SimpleNamespace(sizes=sizes, strides=strides, dtype=dtype, device=where, id=id)


@dataclass
class DeviceTrace:
    """Collects a run; times are in microseconds. `profiler` is what `iterlab.record.read` takes."""

    now: float = 1000.0
    events: list[FunctionEvent] = field(default_factory=list)
    inputs: list[SimpleNamespace] = field(default_factory=list)
    launched: list[SimpleNamespace] = field(default_factory=list)

    def call(self, line: int, names: tuple[str, ...], operands: list[Any], *kernels: Any) -> None:
        """One Python line that calls `names[0]`, which calls `names[1]`, and so on; the innermost
        launches kernels, (name, microseconds, grid, block), 10 µs after the call starts.
        """
        start, last = self.now, len(names)
        for depth, name in enumerate((f"python line: /work/model.py:{line}", *names)):
            event = FunctionEvent(
                len(self.events) + 1, name, 1, start + depth, start + 40 - depth,
                use_device="cuda",
            )  # fmt: skip
            self.events.append(event)
            if depth == last:
                self._launch(event, kernels)
                self.inputs.append(
                    SimpleNamespace(
                        correlation_id=event.id,
                        name=name,
                        children=[],
                        extra_fields=SimpleNamespace(inputs=operands),
                    )
                )
        self.now += 50

    def _launch(self, event: FunctionEvent, kernels: tuple[Any, ...]) -> None:
        at = self.now + 10
        for name, seconds, grid, block in kernels:
            event.append_kernel(name, 0, seconds)
            device = FunctionEvent(
                event.id, name, 7, at, at + seconds, device_type=DeviceType.CUDA,
                use_device="cuda",
            )  # fmt: skip
            self.events.append(device)
            metadata = f'"device": 0, "grid": [{grid}, 1, 1], "block": [{block}, 1, 1]'
            self.launched.append(
                SimpleNamespace(
                    device_type=lambda: DeviceType.CUDA,
                    metadata_json=lambda text=metadata: text,
                    linked_correlation_id=lambda id=event.id: id,
                    name=lambda name=name: name,
                )
            )
            at += seconds + 1
        self.now = max(self.now, at - 60)

    def wait(self, microseconds: float) -> None:
        """The host does something else."""
        self.now += microseconds

    @property
    def profiler(self) -> Any:
        """The profiler that has recorded it."""
        events = EventList(self.events, use_device="cuda")
        events._build_tree()
        results = SimpleNamespace(
            experimental_event_tree=lambda: list(self.inputs), events=lambda: self.launched
        )
        return SimpleNamespace(
            events=lambda: events, profiler=SimpleNamespace(kineto_results=results)
        )


_N = "void at::native::"
_ADD = "at::native::CUDAFunctor_add<float>"
VECTORIZED = f"{_N}vectorized_elementwise_kernel<4, {_ADD}, std::array<char*, 3ul> >(int, ...)"
UNROLLED = (
    f"{_N}unrolled_elementwise_kernel<{_ADD}, std::array<char*, 3ul>, 4, "
    "TrivialOffsetCalculator<2, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, "
    "at::native::memory::LoadWithCast<2>, at::native::memory::StoreWithCast<1> >(int, ...)"
)
STRIDED = (
    f"{_N}elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<{_ADD} >"
    "(at::TensorIteratorBase&, ...)::{lambda(int)#1}>(int, ...)"
)
STRIDED_UNROLLED = (
    f"{_N}elementwise_kernel_manual_unroll<128, 8, at::native::gpu_kernel_impl_nocast<{_ADD} >"
    "(at::TensorIteratorBase&, ...)::{lambda(int, bool)#1}>(int, ...)"
)
COPY = (
    f"{_N}elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
    "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}> >(int, ...)"
)
CAST = (
    f"{_N}unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)"
    "::{lambda(float)#1}, std::array<char*, 2ul>, 4, ...LoadWithCast<1>, ...>(int, ...)"
)
BF16_CAST = f"{_N}vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda(...)>(...)"
REDUCE = f"{_N}reduce_kernel<512, 1, at::native::ReduceOp<float, ...> >"
GATHER = f"{_N}vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, ...)"
INDEX = f"{_N}index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<...> >(long, ...)"
RANDOM = f"{_N}(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4, ...>"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>"
LAYER_NORM = f"{_N}(anonymous namespace)::vectorized_layer_norm_kernel<float, float, ...>"
CAT = f"{_N}(anonymous namespace)::CatArrayBatchedCopy_vectorized<...OpaqueType<4u>, ...>"
FOREACH = f"{_N}(anonymous namespace)::multi_tensor_apply_kernel<...TensorListMetadata<1>, ...>"
GEMM = "nvjet_tst_128x128_64x6_2x1_v_bz_coopA_TNN"
XMMA = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute"
CUTLASS = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_64x4_tn_align8>"
SPLIT_K = "void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, float, false, ...>"
GEMV = "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, ...>"
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, ...> >(...)"
NHWC = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, ...>"
CONVOLUTION = "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x64x32"
TRITON = "triton_poi_fused_add_relu_0"
OURS = "void iterlab::cuda::tiled_kernel<iterlab::Add, float, float, float>(...)"
OURS_REDUCE = "void iterlab::cuda::reduce_inner_kernel<iterlab::Sum, iterlab::Keep, float, 8>(...)"
UPLOAD = "Memcpy HtoD (Pageable -> Device)"
FILL = "Memset (Device)"
