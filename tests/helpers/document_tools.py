"""The documents in JSON that commands print."""


def fields(document, inside=""):
    """Yield the names of all fields of a document, however deep."""
    for value in document if isinstance(document, list) else [document]:
        for name, part in value.items() if isinstance(value, dict) else ():
            if inside != "kinds":  # whose names are kinds
                yield name
            yield from fields(part, name)
