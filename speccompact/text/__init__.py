"""Text on its way to symbols and back: vocabulary, tokenizer, charsets, and the plan of a frame.

Decoding needs `vocabulary` and `charsets` only; `tokenizer` and `slots` serve the encoder.
"""
