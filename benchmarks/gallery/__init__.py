"""The gallery: seven problems with known truth that no decoder of the package was shaped for.

``import gallery`` registers all of them, so that ``compvae.fit`` and ``problems.get`` know them by their names.
"""

from gallery.appliances import Appliances
from gallery.balls import Balls
from gallery.chords import Chords
from gallery.dice import Dice
from gallery.heat import Heat
from gallery.queue import Queue
from gallery.spectra import Spectra

__all__ = ["GALLERY", "Appliances", "Balls", "Chords", "Dice", "Heat", "Queue", "Spectra"]

GALLERY = (Spectra, Chords, Queue, Dice, Appliances, Heat, Balls)  # the order of every table
