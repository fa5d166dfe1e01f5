"""What the tiny model has read; tests and golden archives quote it."""

from tests.tiny_vocabulary import TRAINING_TEXT

STORY = """\
The ferry did not come that morning. People stood on the landing with their baskets and waited, and nobody said what
everybody knew: the ice had moved in the night. Anna counted the boats on the other bank. There were seven of them, and
one had been turned upside down, so that it looked like a loaf of bread on a table.

"If the river is closed, the post will be late," said the miller. He had come to meet a letter and not a person, and he
was ashamed of it. "It was late last year as well," Anna answered. "It came with the swallows."

Towards noon the sun broke through. A boy walked out on the ice with a long pole, knocking before each step the way one
knocks at a door, and when he had reached the middle he waved. Nobody waved back. They were all listening to the sound
that the ice made, which was not a crack yet but a kind of question.
"""

RUSSIAN = """\
Паром в то утро не пришёл. Люди стояли на пристани с корзинами и ждали, и никто не говорил того, что знали все: ночью
тронулся лёд. Анна считала лодки на другом берегу. Их было семь, и одна лежала вверх дном, так что была похожа на хлеб
на столе. К полудню выглянуло солнце, и мальчик с длинным шестом вышел на лёд.
"""

GERMAN = """\
Die Fähre kam an diesem Morgen nicht. Die Leute standen mit ihren Körben am Ufer und warteten, und niemand sagte, was
alle wussten: Über Nacht hatte sich das Eis bewegt. Anna zählte die Boote am anderen Ufer. Es waren sieben, und eines
lag kieloben da wie ein Brot auf dem Tisch.
"""

READING = TRAINING_TEXT + STORY + RUSSIAN + GERMAN
