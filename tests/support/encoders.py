"""BERT-like encoders in tiny sizes: one for vectors, one that scores text pairs."""

from collections.abc import Mapping

from gguf import PoolingType

from scripts.gguf_file import MetaValue
from scripts.minilm import bert_keys
from tests.support.architecture import Architecture, Named
from tests.support.vocabularies import Vocabulary
from tests.support.weights import Weights

_N_EMBD = 128
_N_FF = 256
_N_LAYER = 2
_N_CTX = 256
_SHARP = 1.5  # of queries and keys: see `decoders`


def _keys(pooling: PoolingType) -> Mapping[str, MetaValue]:
    return bert_keys(
        n_layer=_N_LAYER,
        n_embd=_N_EMBD,
        n_ff=_N_FF,
        n_head=4,
        n_ctx=_N_CTX,
        pooling=pooling,
    )


def _linear(w: Weights, name: str, n_out: int, n_in: int, gain: float = 1.0) -> Named:
    weight, bias = f"{name}.weight", f"{name}.bias"
    yield weight, w.matrix(weight, n_out, n_in, gain=gain)
    yield bias, w.table(bias, n_out, size=0.1)


def _layer_norm(w: Weights, name: str) -> Named:
    weight, bias = f"{name}.weight", f"{name}.bias"
    yield weight, w.norm(weight, _N_EMBD)
    yield bias, w.table(bias, _N_EMBD, size=0.1)


def _encoder(w: Weights, vocabulary: Vocabulary) -> Named:
    for name, n_rows, size in (
        ("token_embd.weight", vocabulary.n_tokens, 1.0),
        ("position_embd.weight", _N_CTX, 0.3),
        ("token_types.weight", 2, 0.1),
    ):
        yield name, w.table(name, n_rows, _N_EMBD, size=size)
    yield from _layer_norm(w, "token_embd_norm")
    for layer in range(_N_LAYER):
        block = f"blk.{layer}"
        yield from _linear(w, f"{block}.attn_q", _N_EMBD, _N_EMBD, _SHARP)
        yield from _linear(w, f"{block}.attn_k", _N_EMBD, _N_EMBD, _SHARP)
        yield from _linear(w, f"{block}.attn_v", _N_EMBD, _N_EMBD)
        yield from _linear(w, f"{block}.attn_output", _N_EMBD, _N_EMBD)
        yield from _layer_norm(w, f"{block}.attn_output_norm")
        yield from _linear(w, f"{block}.ffn_up", _N_FF, _N_EMBD)
        yield from _linear(w, f"{block}.ffn_down", _N_EMBD, _N_FF)
        yield from _layer_norm(w, f"{block}.layer_output_norm")


def _cross_encoder(w: Weights, vocabulary: Vocabulary) -> Named:
    yield from _encoder(w, vocabulary)
    yield from _linear(w, "cls", _N_EMBD, _N_EMBD)
    yield from _linear(w, "cls.output", 1, _N_EMBD, gain=3.0)


BERT_MEAN = Architecture("bert", _keys(PoolingType.MEAN), _encoder)
BERT_CLS = Architecture("bert", _keys(PoolingType.CLS), _encoder)
BERT_RANK = Architecture("bert", _keys(PoolingType.RANK), _cross_encoder)
