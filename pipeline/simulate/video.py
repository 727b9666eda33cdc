"""A video feed: people with tastes open it, see a list of clips, and watch some of them for some seconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from features import columns as c
from pipeline.simulate import tables as t
from pipeline.simulate.draws import Draws, Floats, Ints
from pipeline.simulate.world import (
    DAY,
    HOUR,
    MOBILE,
    Catalogue,
    Lists,
    Settings,
    Visitors,
    Visits,
    examination,
    policy_score,
    segment,
    sigmoid,
)

EVENTS: Final = ("impression", "watch")
IMPRESSION, WATCH = range(2)
ACTIONS_PER_LOOK: Final = 0.45
"""Plays that an examined clip draws on average (measured)."""

TOPICS: Final = (
    *("cooking", "football", "travel", "music", "science", "comedy"),
    *("fitness", "games", "news", "crafts", "animals", "fashion"),
)
CREATORS_PER_TOPIC: Final = 8
SEGMENTS: Final = ("casual", "regular", "keen")
TYPICAL_SECONDS: Final = 90

_TOPIC: Final = np.arange(24) % len(TOPICS)
_PART: Final = np.arange(24) // len(TOPICS)
"""A feed's pool: from every topic one of its older and one of its newer clips."""


@dataclass(frozen=True, slots=True)
class Clips:
    """The static side of each clip, (I,) arrays."""

    creator: Ints
    duration: Ints
    """Seconds."""
    length: Floats
    """log of the duration over the typical one."""
    lure: Floats
    """What makes people start it ..."""
    quality: Floats
    """... and what makes them stay."""
    hype: Floats
    """What being new adds to the lure on the first day ..."""
    fading_days: Floats
    """... and in how many days it falls to 37 %."""


@dataclass(frozen=True, slots=True)
class Offers:
    """(B, M) arrays: the pool of each feed as it stands at its time."""

    item: Ints
    taste: Floats
    """How the visitor takes to the topic, the creator and the clip itself."""
    patience: Floats
    """What the length takes away, or adds."""
    appeal: Floats
    """How the clip does with everyone at this time."""


class VideoFeed:
    """All that does not fit in a block: clips and users. Everything else is made block by block."""

    events = EVENTS

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._draws = Draws("video", settings.seed)
        self.queries = settings.queries(ACTIONS_PER_LOOK)
        self._visitors = Visitors.create(self._draws, self.queries, settings.days)
        per_topic = round(40 * max(1.0, self.queries / 5_000) ** 0.6)
        self._catalogue = Catalogue.create(
            self._draws, len(TOPICS), per_topic, ready=round(0.4 * per_topic), past_days=60, days=settings.days
        )
        self._clips = _clips(self._draws, self._catalogue)

    @cached_property
    def items(self) -> pl.DataFrame:
        creators = [f"{topic}-{number}" for topic in TOPICS for number in range(1, CREATORS_PER_TOPIC + 1)]
        return pl.DataFrame(
            {
                c.ITEM: self._catalogue.names(),
                t.TOPIC: t.words(TOPICS, np.arange(len(self._catalogue)) // self._catalogue.per_group),
                t.CREATOR: t.words(creators, self._clips.creator),
                t.DURATION: self._clips.duration.astype(np.int32),
                c.CREATED_AT: t.to_time(pl.Series(self._catalogue.created)),
            }
        )

    @cached_property
    def users(self) -> pl.DataFrame:
        return t.user_table(self._draws, self._visitors, SEGMENTS)

    def block(self, number: Ints) -> t.Block:
        """The queries of these numbers (B,), ascending, in 0 .. queries - 1."""
        visits = self._visitors.visits(self._draws, number)
        offers = self._offers(visits)
        score = self._score(number, offers)
        lists = Lists.arrange(self._draws, number, score)
        shown = t.Shown(visits, lists.of(offers.item), lists.shown)
        seconds = self._seconds(shown, lists.of(offers.taste), lists.of(offers.patience), lists.of(offers.appeal))
        share = np.minimum(1.0, seconds / self._clips.duration[shown.item])
        return t.Block(
            t.query_table(visits, lists.randomised),
            self._log(shown, seconds, lists.of(score)),
            shown.truth(share, examination(self._settings.bias)),
        )

    def _offers(self, visits: Visits) -> Offers:
        draws, clips = self._draws, self._clips
        second, visitor = visits.second[:, None], visits.visitor[:, None]
        late = draws.uniform("recall", visits.number[:, None], _TOPIC, _PART) ** 0.5
        item = self._catalogue.draw(_TOPIC, second, _PART, np.full(24, 2), late)
        age_days = (second - self._catalogue.created[item]) / DAY
        topic, creator = draws.bell("topic", visitor, _TOPIC), draws.bell("creator", visitor, clips.creator[item])
        return Offers(
            item,
            taste=1.2 * topic + 0.8 * creator + 0.5 * draws.bell("clip", visitor, item),
            patience=_patience(draws, visits)[:, None] * clips.length[item],
            appeal=0.6 * clips.lure[item] + clips.hype[item] * np.exp(-age_days / clips.fading_days[item]),
        )

    def _score(self, number: Ints, offers: Offers) -> Floats:
        utility = offers.taste + offers.patience + offers.appeal + 0.5 * self._clips.quality[offers.item]
        popularity = self._clips.lure[offers.item] + self._clips.hype[offers.item]
        return policy_score(self._draws, number, offers.item, utility, popularity, self._settings.policy)

    def _seconds(self, shown: t.Shown, taste: Floats, patience: Floats, appeal: Floats) -> Ints:
        """How long each shown clip would be watched if it were examined, replays included; 0: not started."""
        draws, quality = self._draws, self._clips.quality[shown.item]
        starts = draws.chance(sigmoid(-1.7 + 0.9 * taste + appeal), "start", *shown.keys)
        share = sigmoid(0.2 + 0.6 * taste + 0.9 * quality + 0.8 * patience + 0.8 * draws.bell("stay", *shown.keys))
        share = np.where(share > 0.85, 1.0, share)
        again = (share == 1.0) & draws.chance(0.1, "again", *shown.keys)
        share = share + again * draws.uniform("replay", *shown.keys)
        watched = np.rint(share * self._clips.duration[shown.item]).astype(np.int64)
        return np.where(starts, np.maximum(1, watched), 0)

    def _log(self, shown: t.Shown, seconds: Ints, score: Floats) -> pl.DataFrame:
        """A play is logged when it ends; one in eight is broken off and taken up again within a day."""
        draws, place = self._draws, np.arange(shown.item.shape[1])
        opened = shown.visits.second[:, None]
        watched = shown.shown & (seconds > 0) & draws.chance(examination(self._settings.bias), "examined", *shown.keys)
        breaks = watched & (seconds > 10) & draws.chance(0.12, "breaks", *shown.keys)
        first = np.where(breaks, 1 + draws.below(seconds // 2, "break", *shown.keys), seconds)
        end = opened + 2 + 3 * place + draws.delay(60, "watch delay", *shown.keys) + first
        resumed = end + 60 + draws.delay(20 * HOUR, "resume delay", *shown.keys) + (seconds - first)
        rows = [
            shown.rows(IMPRESSION, shown.shown, opened, **{c.POSITION: place + 1, t.UPSTREAM_SCORE: score}),
            shown.rows(WATCH, watched, end, **{c.VALUE: first}),
            shown.rows(WATCH, breaks, resumed, **{c.VALUE: seconds - first}),
        ]
        return pl.concat(rows).drop(t.PRICE)


def _clips(draws: Draws, catalogue: Catalogue) -> Clips:
    item = np.arange(len(catalogue))
    topic = item // catalogue.per_group
    creator = topic * CREATORS_PER_TOPIC + draws.below(CREATORS_PER_TOPIC, "item creator", item)
    length = 0.8 * draws.bell("length", item)
    return Clips(
        creator=creator,
        duration=np.maximum(8, np.rint(TYPICAL_SECONDS * np.exp(length)).astype(np.int64)),
        length=length,
        lure=draws.bell("lure", item) + 0.5 * draws.bell("creator lure", creator),
        quality=draws.bell("quality", item) + 0.5 * draws.bell("creator quality", creator),
        hype=1.8 * draws.uniform("hype", item),
        fading_days=2 + 8 * draws.uniform("fading", item),
    )


def _patience(draws: Draws, visits: Visits) -> Floats:
    """How much the visitor likes length: the keen do, anyone does in the evening, nobody on the phone."""
    by_segment = np.array([-0.9, -0.4, 0.2])[segment(draws, visits.visitor)]
    moment = 0.3 * visits.evening - 0.4 * (visits.device == MOBILE)
    return np.asarray(by_segment + moment + 0.2 * draws.bell("patience", visits.visitor))
