"""The documents in JSON that commands print."""


def fields(made, inside=""):
    """Yield the names of all fields of a document, however deep."""
    for value in made if isinstance(made, list) else [made]:
        for name, part in value.items() if isinstance(value, dict) else ():
            if inside != "kinds":  # whose names are kinds
                yield name
            yield from fields(part, name)
