"""The formats that are known, in the order in which they are tried: the more specific first, of a
family the one with more than the others first, the generic ones last."""

from remote.formats.format import Format
from remote.formats.known import bars, by_hand, hugging_face, pretraining, pytorch

ALL: tuple[Format, ...] = (
    *pytorch.FORMATS,
    *pretraining.FORMATS,
    *hugging_face.FORMATS,
    *bars.FORMATS,
    *by_hand.FORMATS,
)
BY_NAME = {one.name: one for one in ALL}
