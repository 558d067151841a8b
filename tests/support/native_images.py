"""Pictures by the shortest way through mtmd's own helper, as its tools run them."""

import ctypes

import llama_cpp.llama_cpp as api
import llama_cpp.mtmd_cpp as mtmd
import numpy as np

N_BATCH = 512


def last_row(model_path, projector_path, text, pictures):
    """The logits [n_vocab] behind a prompt.

    Args:
        model_path: The text model.
        projector_path: Its projector.
        text: Holds mtmd's default marker for every picture; a BOS is added where the
            model wants one.
        pictures: Their `Pixels`.
    """
    api.llama_backend_init()
    params = api.llama_model_default_params()
    params.use_extra_bufts = False
    model = api.llama_model_load_from_file(bytes(model_path), params)
    options = api.llama_context_default_params()
    options.n_ctx, options.n_batch, options.n_ubatch = 2_048, N_BATCH, N_BATCH
    options.n_threads = options.n_threads_batch = 1
    options.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_DISABLED
    options.swa_full = True
    context = api.llama_init_from_model(model, options)
    projector = mtmd.mtmd_context_params_default()
    projector.n_threads = 1
    projector.print_timings = False
    encoder = mtmd.mtmd_init_from_file(bytes(projector_path), model, projector)
    try:
        _run(encoder, context, text, pictures)
        vocab = api.llama_model_get_vocab(model)
        n_vocab = api.llama_vocab_n_tokens(vocab)
        pointer = api.llama_get_logits_ith(context, -1)
        return np.ctypeslib.as_array(pointer, (n_vocab,)).copy()
    finally:
        mtmd.mtmd_free(encoder)
        api.llama_free(context)
        api.llama_model_free(model)


def _run(encoder, context, text, pictures):
    bitmaps = []
    for pixels in pictures:
        raw = (ctypes.c_uint8 * len(pixels.rgb)).from_buffer_copy(pixels.rgb)
        bitmaps.append(mtmd.mtmd_bitmap_init(pixels.width, pixels.height, raw))
    words = text.encode()
    given = mtmd.mtmd_input_text(words, len(words), True, True)
    chunks = mtmd.mtmd_input_chunks_init()
    listed = (ctypes.c_void_p * len(bitmaps))(*bitmaps)
    status = mtmd.mtmd_tokenize(
        encoder, chunks, ctypes.byref(given), listed, len(bitmaps)
    )
    assert status == 0
    n_past = api.llama_pos(0)
    status = mtmd.mtmd_helper_eval_chunks(
        encoder, context, chunks, 0, 0, N_BATCH, True, ctypes.byref(n_past)
    )
    assert status == 0
    mtmd.mtmd_input_chunks_free(chunks)
    for bitmap in bitmaps:
        mtmd.mtmd_bitmap_free(bitmap)
