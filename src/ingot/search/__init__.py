"""ingot.search: vector search on arrays, with faiss's conventions."""

from ingot.graph.boundary import check_classes as _check_classes
from ingot.graph.boundary import check_functions as _check_functions
from ingot.search.factory import index_factory
from ingot.search.flat import FlatIndex
from ingot.search.inverted.index import (
    IVFFlatIndex,
    IVFPQIndex,
    IVFScalarQuantizerIndex,
    PQIndex,
    ScalarQuantizerIndex,
)
from ingot.search.metrics import (
    METRIC_COSINE,
    METRIC_INNER_PRODUCT,
    METRIC_L1,
    METRIC_L2,
    METRIC_LINF,
    MetricType,
)
from ingot.search.svd import topk_svd
from ingot.search.top_k import nearest

_public = [_name for _name in globals() if not _name.startswith("_")]
_check_functions(globals(), _public)
_check_classes(globals(), _public, "__init__ train search range_search reconstruct save")
