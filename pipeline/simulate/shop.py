"""A shop: searches by people with tastes, lists of products at moving prices, then clicks, carts and purchases."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from features import columns as c
from pipeline.simulate import tables as t
from pipeline.simulate.draws import Bools, Draws, Floats, Ints
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

EVENTS: Final = ("impression", "click", "cart", "purchase")
IMPRESSION, CLICK, CART, PURCHASE = range(4)
ACTIONS_PER_LOOK: Final = 0.78
"""Clicks, carts and purchases that an examined item draws on average (measured)."""

PRODUCTS: Final = {
    "shoes": ("running", "hiking", "casual", "winter"),
    "jackets": ("rain", "down", "denim", "fleece"),
    "lamps": ("desk", "floor", "wall", "reading"),
    "chairs": ("office", "dining", "garden", "lounge"),
    "bags": ("travel", "laptop", "school", "gym"),
    "watches": ("sports", "dress", "smart", "diving"),
}
BRANDS: Final = ("Norvik", "Alder", "Tessal", "Quonto", "Brisk", "Hofmar", "Lumio", "Pavane", "Ridgeway", "Solen")
COLOURS: Final = ("black", "white", "red", "blue", "green", "grey", "beige", "brown")
TRAITS: Final = ("light", "sturdy", "classic", "foldable", "waterproof", "recycled", "slim", "padded")
SEGMENTS: Final = ("bargain", "regular", "premium")
UNSAID: Final = -1
"""A word that the search does not name."""

KINDS: Final = 4
SECTIONS: Final = len(PRODUCTS)
CATEGORIES: Final = tuple(f"{kind} {section}" for section, kinds in PRODUCTS.items() for kind in kinds)
"""Category `section * KINDS + kind`: running shoes are a kind of shoes."""

# What a search draws its pool from. Row 0: a search for a section, six items of each kind. Row 1: a search that names a
# category, twelve items of it, and four of each other kind, as recall is never clean.
_POOL_KIND: Final = np.array([np.repeat(range(4), 6), np.repeat(range(4), (12, 4, 4, 4))])
_POOL_PARTS: Final = np.array([np.full(24, 6), np.repeat((12, 4, 4, 4), (12, 4, 4, 4))])
_POOL_PART: Final = np.array([np.tile(range(6), 4), [*range(12), *range(4), *range(4), *range(4)]])

_EVENING_LIKES: Final = np.array([0.2, 0.15, 0.15, 0.25, 0.1, 0.15])
_DAYTIME_LIKES: Final = np.array([0.25, 0.2, 0.1, 0.1, 0.25, 0.1])
_WEEKEND_LIKES: Final = np.array([0.15, 0.25, 0.2, 0.2, 0.05, 0.15])


@dataclass(frozen=True, slots=True)
class Products:
    """The static side of each item, (I,) arrays."""

    brand: Ints
    colour: Ints
    trait: Ints
    list_price: Ints
    """Whole cents."""
    dearness: Floats
    """log of the list price over what is usual in the category."""
    quality: Floats
    hype: Floats
    """What being new adds to the appeal on the first day ..."""
    fading_days: Floats
    """... and in how many days it falls to 37 %."""
    drift_phase: Floats
    drift_days: Floats


@dataclass(frozen=True, slots=True)
class Searches:
    """(B,) arrays; the words that a search does not name are `UNSAID`."""

    visits: Visits
    category: Ints
    named: Bools
    """Whether the category is named, or only its section."""
    brand: Ints
    colour: Ints
    trait: Ints


@dataclass(frozen=True, slots=True)
class Offers:
    """(B, M) arrays: the pool of each search as it stands at its time."""

    item: Ints
    price: Ints
    liking: Floats
    """How the visitor takes to the kind, the brand and the thing itself."""
    thrift: Floats
    """What the price takes away, or a deal adds."""
    appeal: Floats
    """How the item does with everyone at this time."""
    fit: Floats
    """How well it is what was asked for."""


class Shop:
    """All that does not fit in a block: items and users. Everything else is made block by block."""

    events = EVENTS

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._draws = Draws("shop", settings.seed)
        self.queries = settings.queries(ACTIONS_PER_LOOK)
        self._visitors = Visitors.create(self._draws, self.queries, settings.days)
        per_category = round(20 * max(1.0, self.queries / 5_000) ** 0.6)
        self._catalogue = Catalogue.create(
            self._draws,
            len(CATEGORIES),
            per_category,
            ready=round(0.65 * per_category),
            past_days=365,
            days=settings.days,
        )
        self._products = _products(self._draws, self._catalogue)

    @cached_property
    def items(self) -> pl.DataFrame:
        p = self._products
        category = t.words(CATEGORIES, np.arange(len(self._catalogue)) // self._catalogue.per_group)
        brand = t.words(BRANDS, p.brand)
        title = brand + " " + t.words(COLOURS, p.colour) + " " + t.words(TRAITS, p.trait) + " " + category
        return pl.DataFrame(
            {
                c.ITEM: self._catalogue.names(),
                t.CATEGORY: category,
                t.BRAND: brand,
                t.PRICE: p.list_price.astype(np.int32),
                t.TITLE: title,
                c.CREATED_AT: t.to_time(pl.Series(self._catalogue.created)),
            }
        )

    @cached_property
    def users(self) -> pl.DataFrame:
        return t.user_table(self._draws, self._visitors, SEGMENTS)

    def block(self, number: Ints) -> t.Block:
        """The queries of these numbers (B,), ascending, in 0 .. queries - 1."""
        searches = self._searches(self._visitors.visits(self._draws, number))
        offers = self._offers(searches)
        utility = offers.appeal + offers.liking + offers.thrift + offers.fit
        score = self._score(number, offers.item, utility)
        lists = Lists.arrange(self._draws, number, score)
        shown = t.Shown(searches.visits, lists.of(offers.item), lists.shown)
        tier = self._tier(shown, lists.of(utility), lists.of(offers.liking), lists.of(offers.thrift))
        return t.Block(
            t.query_table(searches.visits, lists.randomised, **{t.TEXT: _text(searches)}),
            self._log(shown, tier, lists.of(offers.price), lists.of(score)),
            shown.truth(tier.astype(np.float64), examination(self._settings.bias)),
        )

    def _searches(self, visits: Visits) -> Searches:
        draws, number, visitor = self._draws, visits.number, visits.visitor
        section = np.where(draws.chance(0.55, "habit", number), _favourite(draws, visits), _season(draws, visits))
        kind = draws.below(KINDS, "kinds to choose from", number, np.arange(2)[:, None])
        brand = draws.below(len(BRANDS), "brands to choose from", number, np.arange(3)[:, None])
        said = draws.uniform("words", number)
        return Searches(
            visits,
            category=_preferred(draws, "category", visitor, section * KINDS + kind),
            named=draws.chance(0.5, "category named", number),
            brand=np.where(said < 0.2, _preferred(draws, "brand", visitor, brand), UNSAID),
            colour=np.where((said >= 0.2) & (said < 0.35), draws.below(len(COLOURS), "colour", number), UNSAID),
            trait=np.where((said >= 0.35) & (said < 0.5), draws.below(len(TRAITS), "trait", number), UNSAID),
        )

    def _offers(self, s: Searches) -> Offers:
        draws, p, v = self._draws, self._products, s.visits
        second, visitor = v.second[:, None], v.visitor[:, None]
        category = s.category[:, None]
        named = s.named.astype(np.int64)
        drawn = category // KINDS * KINDS + (category + _POOL_KIND[named]) % KINDS
        place = draws.uniform("recall", v.number[:, None], np.arange(_POOL_KIND.shape[1])[None, :])
        item = self._catalogue.draw(drawn, second, _POOL_PART[named], _POOL_PARTS[named], place)
        discount = _discount(draws, item, second)
        return Offers(
            item,
            price=_price(p.list_price[item], discount),
            liking=_liking(draws, visitor, drawn, p.brand[item], item),
            thrift=0.03 * discount - _thrift(draws, v)[:, None] * p.dearness[item],
            appeal=self._appeal(item, second),
            fit=1.4 * (s.named[:, None] & (drawn == category)) + self._words_met(s, item),
        )

    def _words_met(self, s: Searches, item: Ints) -> Floats:
        p = self._products
        looks = (p.colour[item] == s.colour[:, None]) | (p.trait[item] == s.trait[:, None])
        return np.asarray(1.6 * (p.brand[item] == s.brand[:, None]) + 1.4 * looks)

    def _appeal(self, item: Ints, second: Ints) -> Floats:
        p = self._products
        age_days = (second - self._catalogue.created[item]) / DAY
        fresh = p.hype[item] * np.exp(-age_days / p.fading_days[item])
        drift = 0.5 * np.sin(2 * np.pi * (second / DAY / p.drift_days[item] + p.drift_phase[item]))
        return 0.4 * p.quality[item] + fresh + drift

    def _score(self, number: Ints, item: Ints, utility: Floats) -> Floats:
        popularity = self._products.quality[item] + self._products.hype[item]
        return policy_score(self._draws, number, item, utility, popularity, self._settings.policy)

    def _tier(self, shown: t.Shown, utility: Floats, liking: Floats, thrift: Floats) -> Ints:
        """What each shown item would come to if it were examined: 0 nothing, 1 click, 2 cart, 3 purchase."""
        draws, quality = self._draws, self._products.quality[shown.item]
        phone = (shown.visits.device == MOBILE)[:, None]
        clicks = sigmoid(-2.2 + utility + 0.5 * draws.bell("mood", *shown.keys))
        carts = sigmoid(-1.9 + 0.8 * liking + 0.7 * thrift + 0.3 * quality)
        buys = sigmoid(-1.1 + 0.5 * liking + 0.9 * thrift + 0.3 * quality - 0.5 * phone)
        click = draws.chance(clicks, "click", *shown.keys)
        cart = click & draws.chance(carts, "cart", *shown.keys)
        purchase = cart & draws.chance(buys, "purchase", *shown.keys)
        return click.astype(np.int64) + cart + purchase

    def _log(self, shown: t.Shown, tier: Ints, price: Ints, score: Floats) -> pl.DataFrame:
        draws, place = self._draws, np.arange(shown.item.shape[1])
        asked = shown.visits.second[:, None]
        seen = shown.shown & draws.chance(examination(self._settings.bias), "examined", *shown.keys)
        click = asked + 2 + 4 * place + draws.delay(90, "click delay", *shown.keys)
        cart = click + 5 + draws.delay(900, "cart delay", *shown.keys)
        hesitation = np.where(draws.chance(0.25, "hesitates", *shown.keys), 44 * HOUR, HOUR // 2)
        purchase = cart + 30 + draws.delay(hesitation, "purchase delay", *shown.keys)
        return pl.concat(
            [
                shown.rows(
                    IMPRESSION, shown.shown, asked, **{c.POSITION: place + 1, t.PRICE: price, t.UPSTREAM_SCORE: score}
                ),
                shown.rows(CLICK, seen & (tier >= CLICK), click),
                shown.rows(CART, seen & (tier >= CART), cart),
                shown.rows(PURCHASE, seen & (tier >= PURCHASE), purchase, **{c.VALUE: price}),
            ]
        )


def _products(draws: Draws, catalogue: Catalogue) -> Products:
    item = np.arange(len(catalogue))
    category = item // catalogue.per_group
    brand = (len(BRANDS) * draws.uniform("item brand", item) ** 1.3).astype(np.int64)
    dearness = 0.4 * draws.bell("item price", item) + 0.3 * draws.bell("brand price", brand)
    usual_cents = 2_000 + draws.below(18_000, "category price", category)
    return Products(
        brand=brand,
        colour=draws.below(len(COLOURS), "item colour", item),
        trait=draws.below(len(TRAITS), "item trait", item),
        list_price=_end_in_nine(np.rint(usual_cents * np.exp(dearness)).astype(np.int64)),
        dearness=dearness,
        quality=draws.bell("quality", item) + 0.4 * draws.bell("brand quality", brand),
        hype=1.1 * draws.uniform("hype", item),
        fading_days=5 + 20 * draws.uniform("fading", item),
        drift_phase=draws.uniform("drift phase", item),
        drift_days=30 + 60 * draws.uniform("drift days", item),
    )


def _discount(draws: Draws, item: Ints, second: Ints) -> Ints:
    """Per cent off: one item in five is on sale, in weeks that begin on a day of its own."""
    week = (second + draws.below(7, "sale day", item) * DAY) // (7 * DAY)
    return np.where(draws.chance(0.2, "on sale", item, week), 10 + 5 * draws.below(5, "discount", item, week), 0)


def _price(list_price: Ints, discount: Ints) -> Ints:
    return np.where(discount > 0, _end_in_nine(list_price * (100 - discount) // 100), list_price)


def _end_in_nine(cents: Ints) -> Ints:
    return cents // 10 * 10 + 9


def _liking(draws: Draws, visitor: Ints, category: Ints, brand: Ints, item: Ints) -> Floats:
    kind, maker = draws.bell("category", visitor, category), draws.bell("brand", visitor, brand)
    return 1.5 * kind + 0.8 * maker + 0.4 * draws.bell("thing", visitor, item)


def _thrift(draws: Draws, visits: Visits) -> Floats:
    """How much a price above the usual puts the visitor off; more on the phone."""
    by_segment = np.array([1.8, 1.2, 0.5])[segment(draws, visits.visitor)]
    return np.asarray(by_segment + 0.2 * draws.bell("thrift", visits.visitor) + 0.3 * (visits.device == MOBILE))


def _favourite(draws: Draws, visits: Visits) -> Ints:
    """One of the two sections that the visitor comes for."""
    return draws.below(SECTIONS, "favourite", visits.visitor, draws.below(2, "which favourite", visits.number))


def _season(draws: Draws, visits: Visits) -> Ints:
    """A section as people look for it at this hour and on this day."""
    likes = np.cumsum([_DAYTIME_LIKES, _EVENING_LIKES, _WEEKEND_LIKES], axis=1)
    mood = np.where(visits.weekend, 2, visits.evening.astype(np.int64))
    return np.asarray((draws.uniform("season", visits.number)[:, None] >= likes[mood, :-1]).sum(axis=1))


def _preferred(draws: Draws, taste: str, visitor: Ints, choices: Ints) -> Ints:
    """Of the choices (n, B), the one that the visitor likes best."""
    best = np.argmax(draws.bell(taste, visitor[None, :], choices), axis=0)
    return np.asarray(choices[best, np.arange(len(best))])


def _text(s: Searches) -> pl.Series:
    """What was typed: brand, colour or trait where one is wanted, then the category or its section."""
    subject = np.where(s.named, s.category, len(CATEGORIES) + s.category // KINDS)
    parts = {
        "brand": t.words([brand.lower() for brand in BRANDS], s.brand),
        "colour": t.words(COLOURS, s.colour),
        "trait": t.words(TRAITS, s.trait),
        "subject": t.words([*CATEGORIES, *PRODUCTS], subject),
    }
    return pl.DataFrame(parts).select(pl.concat_str(pl.all(), separator=" ", ignore_nulls=True)).to_series()
