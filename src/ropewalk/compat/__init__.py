"""The call shapes that people already have, made exact: one module each, torch loaded only when one is imported.

`ropewalk.compat.transformers` (tables by position_ids, and `use` for a live model), `ropewalk.compat.chatglm`,
`ropewalk.compat.meta` (complex numbers), `ropewalk.compat.flash_attn`, `ropewalk.compat.flashinfer`
and `ropewalk.compat.vllm`.
"""
