"""Batch reads: through the server, straight from files, and Spark's own Parquet reader on the same rows."""

from __future__ import annotations

from bench.figures import Figure

from .setting import Setting, fill, to_nothing

NAME = "spark, read"


def measure(setting: Setting) -> list[Figure]:
    rows = setting.amounts.rows
    fill(setting.url, "rows", rows)
    parquet = str(setting.folder / "parquet")
    setting.read().write.option("compression", "zstd").parquet(parquet)
    from_files = setting.read(path=str(setting.data))
    frames = {
        "Spark's Parquet reader": (setting.spark.read.parquet(parquet), rows),
        "through the server": (setting.read(), rows),
        "from files": (from_files, from_files.count()),  # what no checkpoint has written yet is not in them
    }
    best: dict[str, float] = {}
    for _ in range(setting.amounts.repetitions):
        for what, (frame, count) in frames.items():
            best[what] = max(best.get(what, 0.0), count / to_nothing(frame))
    ceiling = best["Spark's Parquet reader"]
    shares = [
        Figure(NAME, f"{what} ÷ Parquet", rate / ceiling, "ratio") for what, rate in best.items() if rate != ceiling
    ]
    return [Figure(NAME, what, rate) for what, rate in best.items()] + shares
