"""GGUF files as the gguf package writes them, from facts."""

import math

import numpy as np
from gguf import GGUFWriter


def write(path, architecture, *, tensors=None, **keys):
    """Write a GGUF; a key "rope__freq_base" is `<architecture>.rope.freq_base`. Floats are float32."""
    writer = GGUFWriter(path, architecture)
    base = {"block_count": 4, "context_length": 4096, "embedding_length": 1024, "attention__head_count": 8}
    for name, value in {**base, **keys}.items():
        if value is None:
            continue
        key = name.replace("__", ".") if name.startswith("general__") else f"{architecture}.{name.replace('__', '.')}"
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_array(key, value)
    for name, values in (tensors or {}).items():
        writer.add_tensor(name, np.asarray(values, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def codes(model):
    return {one.code for one in model.findings}


def named(model, name):
    return [one for one in model.findings if one.name == name]


def llama3_divisors(width, theta, factor, low, high, original):
    """Divisors as llama.cpp's converter makes them: frequencies in float32, one pair after another."""
    freqs = np.float32(1.0) / np.float32(theta) ** (np.arange(0, width, 2, dtype=np.float32) / np.float32(width))
    made = []
    for freq in freqs.astype(np.float32):
        wavelength = np.float32(2 * math.pi) / freq
        if wavelength < original / high:
            made.append(1.0)
        elif wavelength > original / low:
            made.append(factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            made.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(made, dtype=np.float32)
