"""Text generators in tiny sizes: attention, experts, convolutions, delta net.

Names and shapes are those that llama.cpp asks for when it loads the architecture.
Rows are multiples of 256, the block size of the K-quants, so that every quantisation
that real models come in can be tried.
"""

from scripts.gguf_file import Metadata, MetaValue
from tests.support.architecture import Architecture, Named
from tests.support.vocabularies import Vocabulary
from tests.support.weights import Weights

_N_EMBD = 256
_N_FF = 512
_N_HEAD = 4
_N_HEAD_KV = 2
_HEAD = 64
# Query and key norms of this size let a token look at few others. At 1, attention
# over random weights is an even mean, and long prompts all look alike.
_SHARP = 2.0

_N_EXPERT = 8
_N_EXPERT_FF = 256

_CONV_TAPS = 3

_N_DELTA_KEY_HEADS = 2
_N_DELTA_VALUE_HEADS = 4
_DELTA_HEAD = 64
_DELTA_INNER = _N_DELTA_VALUE_HEADS * _DELTA_HEAD
_DELTA_MIXED = 2 * _N_DELTA_KEY_HEADS * _DELTA_HEAD + _DELTA_INNER
_DELTA_TAPS = 4


def _keys(n_layer: int, more: Metadata | None = None) -> Metadata:
    keys: dict[str, MetaValue] = {
        "block_count": n_layer,
        "context_length": 4_096,
        "embedding_length": _N_EMBD,
        "feed_forward_length": _N_FF,
        "attention.head_count": _N_HEAD,
        "attention.head_count_kv": _N_HEAD_KV,
        "attention.key_length": _HEAD,
        "attention.value_length": _HEAD,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.dimension_count": _HEAD,
        "rope.freq_base": 100_000.0,
    }
    return {**keys, **(more or {})}


def _ends(
    w: Weights,
    vocabulary: Vocabulary,
    *,
    embd_size: float = 1.0,
    norm: str = "output_norm.weight",
) -> Named:
    n_vocab = vocabulary.n_tokens
    embd, head = "token_embd.weight", "output.weight"
    yield embd, w.table(embd, n_vocab, _N_EMBD, size=embd_size)
    yield norm, w.norm(norm, _N_EMBD)
    yield head, w.head(head, n_vocab, _N_EMBD, vocabulary.marker_ids)


def _norms(w: Weights, layer: int, *names: str) -> Named:
    for name in names:
        full = f"blk.{layer}.{name}.weight"
        yield full, w.norm(full, _N_EMBD)


def _matrix(w: Weights, layer: int, name: str, *shape: int, gain: float = 1.0) -> Named:
    full = f"blk.{layer}.{name}.weight"
    yield full, w.matrix(full, *shape, gain=gain)


def _attention(
    w: Weights, layer: int, *, head_norms: bool = True, gated: bool = False
) -> Named:
    """Grouped-query attention.

    Args:
        w: Where weights come from.
        layer: Number of the block.
        head_norms: Normalise queries and keys head by head. Without that, the
            projections themselves are made larger to the same effect.
        gated: The query projection gives a gate of the same width as well.
    """
    width, kv_width = _N_HEAD * _HEAD, _N_HEAD_KV * _HEAD
    gain = 1.0 if head_norms else _SHARP
    q_width = 2 * width if gated else width
    yield from _matrix(w, layer, "attn_q", q_width, _N_EMBD, gain=gain)
    yield from _matrix(w, layer, "attn_k", kv_width, _N_EMBD, gain=gain)
    yield from _matrix(w, layer, "attn_v", kv_width, _N_EMBD)
    yield from _matrix(w, layer, "attn_output", _N_EMBD, width, gain=2.0)
    if head_norms:
        for name in ("attn_q_norm", "attn_k_norm"):
            full = f"blk.{layer}.{name}.weight"
            yield full, w.norm(full, _HEAD, _SHARP)


def _feed_forward(w: Weights, layer: int) -> Named:
    yield from _matrix(w, layer, "ffn_gate", _N_FF, _N_EMBD)
    yield from _matrix(w, layer, "ffn_up", _N_FF, _N_EMBD)
    yield from _matrix(w, layer, "ffn_down", _N_EMBD, _N_FF, gain=2.0)


def _experts(w: Weights, layer: int) -> Named:
    up = (_N_EXPERT, _N_EXPERT_FF, _N_EMBD)
    down = (_N_EXPERT, _N_EMBD, _N_EXPERT_FF)
    yield from _matrix(w, layer, "ffn_gate_inp", _N_EXPERT, _N_EMBD, gain=2.0)
    yield from _matrix(w, layer, "ffn_gate_exps", *up)
    yield from _matrix(w, layer, "ffn_up_exps", *up)
    yield from _matrix(w, layer, "ffn_down_exps", *down, gain=2.0)


def _short_convolution(w: Weights, layer: int) -> Named:
    kernel = f"blk.{layer}.shortconv.conv.weight"
    yield from _matrix(w, layer, "shortconv.in_proj", 3 * _N_EMBD, _N_EMBD)
    yield kernel, w.table(kernel, _N_EMBD, _CONV_TAPS, size=0.7)
    yield from _matrix(w, layer, "shortconv.out_proj", _N_EMBD, _N_EMBD)


def _delta_net(w: Weights, layer: int) -> Named:
    kernel = f"blk.{layer}.ssm_conv1d.weight"
    decay, step = f"blk.{layer}.ssm_a", f"blk.{layer}.ssm_dt.bias"
    norm = f"blk.{layer}.ssm_norm.weight"
    n_heads = _N_DELTA_VALUE_HEADS
    yield from _matrix(w, layer, "attn_qkv", _DELTA_MIXED, _N_EMBD)
    yield from _matrix(w, layer, "attn_gate", _DELTA_INNER, _N_EMBD)
    yield kernel, w.table(kernel, _DELTA_MIXED, _DELTA_TAPS, size=0.7)
    # A token multiplies the state by exp(a * softplus(dt + ...)). These values keep
    # about nine tenths of it, so that a state still knows tokens from long ago.
    yield step, w.norm(step, n_heads, -2.0)
    yield decay, w.norm(decay, n_heads, -1.0)
    yield from _matrix(w, layer, "ssm_beta", n_heads, _N_EMBD)
    yield from _matrix(w, layer, "ssm_alpha", n_heads, _N_EMBD)
    yield norm, w.norm(norm, _DELTA_HEAD)
    yield from _matrix(w, layer, "ssm_out", _N_EMBD, _DELTA_INNER, gain=2.0)


def _qwen3_tensors(w: Weights, vocabulary: Vocabulary) -> Named:
    yield from _ends(w, vocabulary)
    for layer in range(3):
        yield from _norms(w, layer, "attn_norm", "ffn_norm")
        yield from _attention(w, layer)
        yield from _feed_forward(w, layer)


def _qwen3_moe_tensors(w: Weights, vocabulary: Vocabulary) -> Named:
    yield from _ends(w, vocabulary)
    for layer in range(2):
        yield from _norms(w, layer, "attn_norm", "ffn_norm")
        yield from _attention(w, layer)
        yield from _experts(w, layer)


def _qwen3_rank_tensors(w: Weights, vocabulary: Vocabulary) -> Named:
    yield from _qwen3_tensors(w, vocabulary)
    yield "cls.output.weight", w.matrix("cls.output.weight", 2, _N_EMBD, gain=2.0)


def _llama_tensors(w: Weights, vocabulary: Vocabulary) -> Named:
    yield from _ends(w, vocabulary)
    for layer in range(3):
        yield from _norms(w, layer, "attn_norm", "ffn_norm")
        yield from _attention(w, layer, head_norms=False)
        yield from _feed_forward(w, layer)


def _qwen2vl_tensors(w: Weights, vocabulary: Vocabulary) -> Named:
    yield from _llama_tensors(w, vocabulary)
    for layer in range(3):
        for name, width in (
            ("attn_q", _N_HEAD * _HEAD),
            ("attn_k", _N_HEAD_KV * _HEAD),
            ("attn_v", _N_HEAD_KV * _HEAD),
        ):
            full = f"blk.{layer}.{name}.bias"
            yield full, w.table(full, width, size=0.1)


def _lfm2_tensors(w: Weights, vocabulary: Vocabulary) -> Named:
    # llama.cpp reads this architecture's last norm under the embeddings' name.
    yield from _ends(w, vocabulary, norm="token_embd_norm.weight")
    for layer, n_head_kv in enumerate(_LFM2_KV_HEADS):
        yield from _norms(w, layer, "attn_norm", "ffn_norm")
        yield from _attention(w, layer) if n_head_kv else _short_convolution(w, layer)
        yield from _feed_forward(w, layer)


def _qwen35_tensors(w: Weights, vocabulary: Vocabulary) -> Named:
    yield from _ends(w, vocabulary)
    for layer, recurrent in enumerate(_QWEN35_RECURRENT):
        yield from _norms(w, layer, "attn_norm", "post_attention_norm")
        yield from (
            _delta_net(w, layer) if recurrent else _attention(w, layer, gated=True)
        )
        yield from _feed_forward(w, layer)


def _gemma3_tensors(w: Weights, vocabulary: Vocabulary) -> Named:
    # The graph multiplies embeddings by sqrt(n_embd): stored ones are that smaller.
    yield from _ends(w, vocabulary, embd_size=_N_EMBD**-0.5)
    for layer in range(4):
        yield from _norms(w, layer, "attn_norm", "post_attention_norm")
        yield from _norms(w, layer, "ffn_norm", "post_ffw_norm")
        yield from _attention(w, layer)
        yield from _feed_forward(w, layer)


_LFM2_KV_HEADS = (0, _N_HEAD_KV, 0, _N_HEAD_KV)
_QWEN35_RECURRENT = (True, True, False, True)

QWEN3 = Architecture("qwen3", _keys(3), _qwen3_tensors)

QWEN3_MOE = Architecture(
    "qwen3moe",
    _keys(
        2,
        {
            "expert_count": _N_EXPERT,
            "expert_used_count": 2,
            "expert_feed_forward_length": _N_EXPERT_FF,
        },
    ),
    _qwen3_moe_tensors,
)

QWEN3_RANK = Architecture(
    "qwen3",
    _keys(3, {"pooling_type": 4, "classifier.output_labels": ("yes", "no")}),
    _qwen3_rank_tensors,
)

LLAMA = Architecture("llama", _keys(3), _llama_tensors)

QWEN2VL = Architecture(
    "qwen2vl",
    _keys(3, {"rope.dimension_sections": (8, 12, 12, 0)}),
    _qwen2vl_tensors,
)

LFM2 = Architecture(
    "lfm2",
    _keys(
        len(_LFM2_KV_HEADS),
        {"attention.head_count_kv": _LFM2_KV_HEADS, "shortconv.l_cache": _CONV_TAPS},
    ),
    _lfm2_tensors,
)

QWEN35 = Architecture(
    "qwen35",
    _keys(
        len(_QWEN35_RECURRENT),
        {
            "attention.recurrent_layers": _QWEN35_RECURRENT,
            "rope.dimension_count": _HEAD // 4,
            "rope.dimension_sections": (3, 3, 2, 0),
            "ssm.conv_kernel": _DELTA_TAPS,
            "ssm.inner_size": _DELTA_INNER,
            "ssm.state_size": _DELTA_HEAD,
            "ssm.time_step_rank": _N_DELTA_VALUE_HEADS,
            "ssm.group_count": _N_DELTA_KEY_HEADS,
        },
    ),
    _qwen35_tensors,
)

GEMMA3 = Architecture(
    "gemma3",
    _keys(
        4,
        {
            "attention.sliding_window": 64,
            # Every second layer sees the whole context.
            "attention.sliding_window_pattern": 2,
        },
    ),
    _gemma3_tensors,
)
