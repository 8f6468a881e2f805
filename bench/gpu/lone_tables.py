"""Steps that were put together from stages which ran alone, in the two bounds of what their collectives take."""

from technique_tables import GIB, median

COLUMNS = ["model", "stages that ran", "step predicted, s", "measured, s", "loaded, s", "computation, s", "loaded, s",
           "communication, s", "bubble, s", "peak of each stage, GiB"]
PARTS = ("step_time", "computation_time", "communication_time", "bubble_time")


def of_models(records):
    """{(model, layers, whether it is loaded): record} of lone ranks that measure made."""
    found = {}
    for record in records:
        if record["artifact"] == "measure" and record["status"] == "ok" and (record["communication"] or {}).get("machine"):
            model = record["configuration"]["model"]
            found[model["name"], model["layers"], record["options"].get("collective_load") == "all"] = record
    return found


def text(record, part):
    """A median, with its interval where it has one; a rank that has no other stages has no parts."""
    if not record or part not in record["metrics"]:
        return ""
    interval = record["metrics"][part].get("interval")
    return f"{median(record, part):.4g}" + (f" [{interval['low']:.4g}, {interval['high']:.4g}]" if interval else "")


def rows(predicted, measured):
    sides = of_models(predicted), of_models(measured)
    for (name, layers, loaded), there in sides[1].items():
        if loaded or there["configuration"]["pipeline_parallel_size"] * there["configuration"]["tensor_parallel_size"] == 1:
            continue
        here, most = sides[0].get((name, layers, False)), sides[1].get((name, layers, True))
        ran = there.get("lone_stages", {"stages": [0]})["stages"]
        yield [f"{name}, {layers} layers", ", ".join(map(str, ran)), text(here, "step_time"),
               *(text(side, part) for part in PARTS[:2] for side in (there, most)), *(text(there, part) for part in PARTS[2:]),
               ", ".join(f"{stage['peak'] / GIB:.2f}" for stage in there["memory"]["stages"])]
