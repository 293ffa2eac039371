"""ingot.search: vector search on arrays, with faiss's conventions."""

from ingot.graph.boundary import check_classes as _check_classes
from ingot.graph.boundary import check_functions as _check_functions
from ingot.search.factory import index_factory as index_factory
from ingot.search.flat import FlatIndex as FlatIndex
from ingot.search.inverted.index import IVFFlatIndex as IVFFlatIndex
from ingot.search.inverted.index import IVFPQIndex as IVFPQIndex
from ingot.search.inverted.index import IVFScalarQuantizerIndex as IVFScalarQuantizerIndex
from ingot.search.inverted.index import PQIndex as PQIndex
from ingot.search.inverted.index import ScalarQuantizerIndex as ScalarQuantizerIndex
from ingot.search.metrics import METRIC_COSINE as METRIC_COSINE
from ingot.search.metrics import METRIC_INNER_PRODUCT as METRIC_INNER_PRODUCT
from ingot.search.metrics import METRIC_L1 as METRIC_L1
from ingot.search.metrics import METRIC_L2 as METRIC_L2
from ingot.search.metrics import METRIC_LINF as METRIC_LINF
from ingot.search.metrics import MetricType as MetricType
from ingot.search.sharded import ShardedIndex as ShardedIndex
from ingot.search.svd import topk_svd as topk_svd
from ingot.search.top_k import nearest as nearest

_public = [_name for _name in globals() if not _name.startswith("_")]
_check_functions(globals(), _public)
_check_classes(globals(), _public, "__init__ train search range_search reconstruct save")
