"""Plain twins of the kernels, each with the kernel's name, in float64, written from the formulas.

A kernel works on rows, ranges and chains. Its twin works on objects that point to each other.
"""

from naive.codes import *
from naive.dense import *
from naive.lexical import *
from naive.opening import *
from naive.scores import *
from naive.searches import *
from naive.selection import *
from naive.statistics import *
from naive.tree import *
from naive.wire import *
