"""chat-tiny: a small Llama trained in numpy alone.

The package owns everything between a question-and-answer dataset and a model
that an inference engine can serve: the tokenizer, the transformer with its
backward pass written by hand, the optimizer, the training loop, and the two
export formats (Hugging Face layout and GGUF).
"""
