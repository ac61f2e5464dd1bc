"""Elementwise and reduction operators for PyTorch without slow cases, explained.

>>> import torch, iterlab
>>> iterlab.add(x, y)                    # any layout, any dtype, differentiable
>>> torch.ops.iterlab.add(x, y)          # the same as an operator of torch's dispatcher
>>> print(iterlab.explain("add", x, y))  # which loop that runs, and why
"""

from iterlab._load import load

load()

from iterlab import _functions, _subclasses, compile  # noqa: E402
from iterlab._C import cpu_capability  # noqa: E402
from iterlab._functions import *  # noqa: E402, F403
from iterlab.explain import Explanation, explain  # noqa: E402
from iterlab.override import override_aten  # noqa: E402
from iterlab.planning import OperandPlan, Plan, ReductionPlan, force_path, plan  # noqa: E402
from iterlab.profile import Profile, profile  # noqa: E402
from iterlab.table import OpEntry, Parameter, op_table  # noqa: E402

_subclasses.register()

__version__ = "0.1.0"

__all__ = [
    "Explanation",
    "OpEntry",
    "OperandPlan",
    "Parameter",
    "Plan",
    "Profile",
    "ReductionPlan",
    "compile",
    "cpu_capability",
    "explain",
    "force_path",
    "op_table",
    "override_aten",
    "plan",
    "profile",
]
__all__ += _functions.__all__  # as type checkers read it
