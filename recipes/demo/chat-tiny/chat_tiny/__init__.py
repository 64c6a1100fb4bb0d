"""chat-tiny: train a small Llama with numpy only.

The package turns a dataset of questions and answers into a model that an
inference engine can serve. It contains the tokenizer, the transformer with a
hand-written backward pass, the optimizer, the training loop and two export
formats: the Hugging Face layout and GGUF.
"""
