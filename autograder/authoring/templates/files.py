# @title The files that belong beside this notebook
# Where the notebook was opened by itself, as in Colab, they are fetched; where they are there, nothing happens.
# To hand in what you wrote in Colab: File > Download > Download .ipynb.
def fetch_files(address):
    import importlib
    import io
    import re
    import zipfile
    from pathlib import Path
    from urllib.request import urlopen

    if Path("checks.py").exists() and Path("checking.zip").exists():
        return
    try:
        with urlopen(address, timeout=30) as answer:
            download = zipfile.ZipFile(io.BytesIO(answer.read()))
        for name in download.namelist():
            plain = re.fullmatch(r"[\w-]+/((\w[\w.-]*/)*\w[\w.-]*)", name)  # below the folder, and nothing hidden
            if plain and not name.endswith(".ipynb") and not Path(plain[1]).exists():
                Path(plain[1]).parent.mkdir(parents=True, exist_ok=True)
                Path(plain[1]).write_bytes(download.read(name))
        importlib.invalidate_caches()
        print(f"Fetched what belongs beside this notebook from {address}")
    except Exception as problem:
        print(
            f"checks.py and checking.zip are missing beside this notebook, and {address} could not be "
            f"fetched ({problem}). Get that download in another way, and put the two files of it beside the notebook."
        )


fetch_files("SITE/exercises/NN-name.zip")
del fetch_files
