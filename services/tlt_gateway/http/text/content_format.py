"""Whether a chat template reads a message's content as a list of parts, decided as in SGLang."""

from jinja2 import nodes

_MEDIA = ("image", "audio", "video", "vision")
_MESSAGES = ("message", "msg", "m")


def reads_parts(source: str, parsed: nodes.Template) -> bool:
    """Whether a template loops over the parts of messages; `detect_jinja_template_content_format` in SGLang."""
    return any(word in source for word in _MEDIA) or any(_is_content(loop.iter) for loop in parsed.find_all(nodes.For))


def _is_content(node: nodes.Node | None) -> bool:
    """Whether an expression is the content of a message, or a part of it, or made from it by filters."""
    while isinstance(node, nodes.Filter | nodes.Test) or (
        isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
    ):
        node = node.node
    if isinstance(node, nodes.Getitem):
        name = node.arg.value if isinstance(node.arg, nodes.Const) else None
    elif isinstance(node, nodes.Getattr):
        name = node.attr
    else:
        return False
    return name == "content" and isinstance(node.node, nodes.Name) and node.node.name in _MESSAGES
