"""Plain twins of the kernels, each with the kernel's name, in float64, written from the formulas.

A kernel works on rows, ranges and chains. Its twin works on objects that point to each other.
"""

from tests.kernels.naive.codes import *
from tests.kernels.naive.dense import *
from tests.kernels.naive.lexical import *
from tests.kernels.naive.opening import *
from tests.kernels.naive.scores import *
from tests.kernels.naive.searches import *
from tests.kernels.naive.second_stage import *
from tests.kernels.naive.selection import *
from tests.kernels.naive.statistics import *
from tests.kernels.naive.tree import *
from tests.kernels.naive.wire import *
