"""Calendar arithmetic for phrases of time: weeks and months, spans from today, nearest dates.

A span is its first and its last day. Weeks begin on Monday. A day outside the calendar is a
ValueError or an OverflowError.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from dataclasses import dataclass
from datetime import date, datetime, timedelta

Days = tuple[date, date]

_LEAP_DAY = (2, 29)
_DAY = timedelta(days=1)
_SEASON_MONTHS = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}


def one(day: date) -> Days:
    """Return the span of one day: (day, day)."""
    return day, day


def shifted(day: date, unit: str, count: int) -> date:
    """Return the day `count` units later; Jan 31 plus a month is the last day of February.

    `unit` is day, week, month, quarter or year. A negative count gives an earlier day.
    """
    if unit in ("day", "week"):
        return day + timedelta(days=count * (7 if unit == "week" else 1))
    months = day.year * 12 + day.month - 1 + count * {"month": 1, "quarter": 3, "year": 12}[unit]
    year, month = divmod(months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def whole(unit: str, day: date) -> Days:
    """Return the first and last day of the week, weekend, month, quarter or year around a day.

    The weekend is that of the day's week.
    """
    if unit == "day":
        return one(day)
    if unit == "week":
        first = day - timedelta(days=day.weekday())
    elif unit == "weekend":
        first = day + timedelta(days=5 - day.weekday())
        return first, first + _DAY
    elif unit == "month":
        first = day.replace(day=1)
    elif unit == "quarter":
        first = date(day.year, (day.month - 1) // 3 * 3 + 1, 1)
    else:
        first = date(day.year, 1, 1)
    return first, shifted(first, unit, 1) - _DAY


def month_of(year: int, month: int) -> Days:
    """Return the first and last day of a month."""
    return whole("month", date(year, month, 1))


def third_of(month: Days, third: int) -> Days:
    """Return the first ten days of a month (`third` 0), the next ten (1) or the rest (2)."""
    first = month[0].replace(day=1 + 10 * third)
    return first, month[1] if third == 2 else first.replace(day=10 * third + 10)


def season_of(year: int, season: str) -> Days:
    """Return the three months of a northern season; a winter begins in December of `year`."""
    first = date(year, _SEASON_MONTHS[season], 1)
    return first, shifted(first, "quarter", 1) - _DAY


@dataclass(frozen=True, slots=True)
class Calendar:
    """The meaning of phrases in a sentence, which depends on the present time.

    With `ahead` the sentence is about the future, so "on Monday" is the next Monday, else the last.
    """

    now: datetime
    ahead: bool  # The sentence speaks of what is to come.

    @property
    def today(self) -> date:
        """The present day, in the time zone of `now`."""
        return self.now.date()

    def at(self, unit: str, count: int) -> Days:
        """Return a whole calendar unit, `count` units after the present one; -1 is last week."""
        day = shifted(self.today, "week" if unit == "weekend" else unit, count)
        return whole(unit, day)

    def hours(self, hours: float) -> date:
        """Return the day `hours` hours from now; a negative number goes back."""
        return (self.now + timedelta(hours=hours)).date()

    def rolling(self, unit: str, count: int) -> Days:
        """Return the last `count` units up to today (count < 0), or the next ones from tomorrow.

        ("day", -7) is today and the six days before it.
        """
        edge = shifted(self.today, unit, count)
        return (self.today + _DAY, edge) if count > 0 else (edge + _DAY, self.today)

    def since(self, days: Days) -> Days:
        """Return the span from the first day of a span to today."""
        return days[0], max(days[0], self.today)

    def weekday(self, weekday: int, weeks: int) -> Days:
        """Return the weekday (0 is Monday) of the calendar week `weeks` weeks after this one."""
        return one(self.at("week", weeks)[0] + timedelta(days=weekday))

    def last_weekday(self, weekday: int) -> Days:
        """Return the latest day before today with this weekday; 0 is Monday."""
        return one(self.today - timedelta(days=(self.today.weekday() - weekday - 1) % 7 + 1))

    def near_weekday(self, weekday: int) -> Days:
        """Return the last day with this weekday before today; with `ahead` the first not before."""
        if not self.ahead:
            return self.last_weekday(weekday)
        return one(self.today + timedelta(days=(weekday - self.today.weekday()) % 7))

    def near_year(self, first: tuple[int, int], last: tuple[int, int]) -> int:
        """Return the year of a yearly span: the last that has begun; with `ahead` the next to end.

        Args:
            first, last: the first and last day of the span, each as (month, day).
        """
        today = self.today.month, self.today.day
        return self.today.year + (last < today if self.ahead else -(first > today))

    def date(self, month: int, day: int, year: int | None = None) -> Days:
        """Return the span of one date; without a year, the last one, or with `ahead` the next."""
        if not year:
            year = self.near_year((month, day), (month, day))
            while (month, day) == _LEAP_DAY and not isleap(year):
                year += 1 if self.ahead else -1
        return one(date(year, month, day))

    def month(self, month: int, year: int | None = None) -> Days:
        """Return the span of a month.

        Without a year it is the last one that has begun; with `ahead`, the next that is not over.
        """
        return month_of(year or self.near_year((month, 1), (month, 31)), month)

    def day_of_month(self, day: int) -> Days:
        """Return the last day with this number in its month ("the 5th"); with `ahead` the next."""
        first = self.today.replace(day=1)
        if self.ahead and day < self.today.day:
            first = shifted(first, "month", 1)
        elif not self.ahead and day > self.today.day:
            first = shifted(first, "month", -1)
        return one(first.replace(day=day))

    def quarter(self, quarter: int, year: int | None = None) -> Days:
        """Return a quarter (1 to 4); `near_year` gives the year if there is none."""
        month = 3 * quarter - 2
        year = year or self.near_year((month, 1), (month + 2, 31))
        return whole("quarter", date(year, month, 1))

    def half(self, half: int, year: int | None = None) -> Days:
        """Return a half of a year (1 or 2); `near_year` gives the year if there is none."""
        year = year or self.near_year((6 * half - 5, 1), (6 * half, 31))
        return date(year, 6 * half - 5, 1), month_of(year, 6 * half)[1]

    def season(self, season: str, count: int) -> Days:
        """Return a season: the last one that is over (-1), this year's (0), or the next (1)."""
        years = range(self.today.year - 2, self.today.year + 3)
        seasons = [season_of(year, season) for year in years]
        if count < 0:
            return [days for days in seasons if days[1] < self.today][-1]
        if count > 0:
            return next(days for days in seasons if days[0] > self.today)
        return seasons[2]
