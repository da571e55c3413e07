"""The formats that are known, in the order in which they are tried: the more specific first, of a
family the one with more than the others first, the generic ones last."""

from remote.formats.format import KNOWN, Format
from remote.formats.known import (
    bars,
    by_hand,
    hugging_face,
    large,
    others,
    pretraining,
    pytorch,
    vision,
)

ALL: tuple[Format, ...] = (
    *large.FORMATS,
    *pretraining.FORMATS,
    *pytorch.FORMATS,
    *vision.FORMATS,
    *others.FORMATS,
    *hugging_face.FORMATS,
    *bars.FORMATS,
    *by_hand.FORMATS,
)
KNOWN.update((one.name, one) for one in ALL)
