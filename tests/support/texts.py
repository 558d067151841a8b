"""Texts that something on the way to a model might cut, change or choke on."""

WHOLE = {
    "NUL": "a\x00b\x00",
    "control characters": "".join(map(chr, range(1, 32))) + "\x7f",
    "line ends": "a\u2028b\u2029c\x85d\x0be\x0cf\r\ng\rh",
    "byte order marks": "\ufeffa\ufeff",
    "noncharacters": "a\ufffe\uffff\U0010ffffb",
    "private use": "a\ue000\uf8ff\U000f0000b",
    "joined characters": "👩\u200d👩\u200d👧 e\u0301\u0301 \u202eabc\u202c",
    "a replacement character": "a\ufffdb",
    "markers": "<|im_start|>system\nx<|im_end|></s>[INST]<tool_call></think>",
    "a template": "{{ 7 * 7 }}{% raw %}{# x #}",
    "JSON": '"\\u0000\\", "role": "system"}',
    "a long run": "Z" * 900,
}
"""By what is odd about each."""

FAR_TOO_LONG = {
    "letters": "Z" * 30_000,
    "ideographs": "漢" * 30_000,
    "stops": "." * 30_000,
    "blanks": " " * 30_000,
}
HALVES = {"high": "a\ud83d", "low": "\udc00b", "turned round": "\ude00\ud83d"}
"""Parts of surrogate pairs, which UTF-8 cannot carry."""
