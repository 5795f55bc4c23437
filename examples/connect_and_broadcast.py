"""Two operators with two inputs: one that matches two streams by key, and one that knows a table that may change.

Orders and payments share a key. A payment is given in some currency, and exchange rates are broadcast to every
subtask; a payment whose rate is not known yet waits for it. Printed are, in some order,

    order 1 over 20.00 was paid with 20.00 EUR
    order 2 over 15.00 was paid with 16.50 USD
    order 3 over 40.00 has not been paid in full: 30.00 EUR are 30.00
    order 4 over 9.99 was never paid
"""

from millrace.common import Types, WatermarkStrategy
from millrace.datastream import KeyedBroadcastProcessFunction, KeyedCoProcessFunction, StreamExecutionEnvironment
from millrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

# (order, at, amount), (order, at, amount, currency), (currency, price of one euro)
ORDERS = [(1, 1000, 20.0), (2, 2000, 15.0), (3, 3000, 40.0), (4, 4000, 9.99)]
PAYMENTS = [(2, 2500, 16.5, "USD"), (1, 3500, 20.0, "EUR"), (3, 4500, 30.0, "EUR")]
RATES = [("EUR", 1.0), ("USD", 1.1)]

RATES_STATE = MapStateDescriptor("rates", Types.STRING(), Types.DOUBLE())
WAITING = ListStateDescriptor("waiting", Types.PICKLED_BYTE_ARRAY())
PATIENCE = 60_000


class Match(KeyedCoProcessFunction):
    """Brings an order and its payment together, whichever comes first, or gives the payment up after a minute."""

    def open(self, runtime_context):
        self.order = runtime_context.get_state(ValueStateDescriptor("order", Types.DOUBLE()))
        self.payment = runtime_context.get_state(ValueStateDescriptor("payment", Types.PICKLED_BYTE_ARRAY()))

    def process_element1(self, order, ctx):
        self.order.update(order[2])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + PATIENCE)
        return self.matched(ctx)

    def process_element2(self, payment, ctx):
        self.payment.update(payment[2:])
        return self.matched(ctx)

    def matched(self, ctx):
        if self.order.value() is not None and self.payment.value() is not None:
            yield ctx.get_current_key(), self.order.value(), *self.payment.value()

    def on_timer(self, timestamp, ctx):
        if self.payment.value() is None:
            yield ctx.get_current_key(), self.order.value(), 0.0, "EUR"


class Convert(KeyedBroadcastProcessFunction):
    """Judges matches by the exchange rates, which every subtask has a copy of."""

    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(WAITING)

    def process_element(self, match, ctx):
        rate = ctx.get_broadcast_state(RATES_STATE).get(match[3])
        if rate is None:
            self.waiting.add(match)
        else:
            yield verdict(match, rate)

    def process_broadcast_element(self, value, ctx):
        currency, rate = value
        ctx.get_broadcast_state(RATES_STATE).put(currency, rate)
        released = []

        def release(_order, waiting):
            matches = list(waiting.get())
            released.extend(match for match in matches if match[3] == currency)
            waiting.update([match for match in matches if match[3] != currency])

        ctx.apply_to_keyed_state(WAITING, release)
        return [verdict(match, rate) for match in released]


def verdict(match, rate: float) -> str:
    """What to say about an order and its payment."""
    order, amount, paid, currency = match
    if paid == 0:
        return f"order {order} over {amount:.2f} was never paid"
    if paid / rate >= amount - 0.005:
        return f"order {order} over {amount:.2f} was paid with {paid:.2f} {currency}"
    return f"order {order} over {amount:.2f} has not been paid in full: {paid:.2f} {currency} are {paid / rate:.2f}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    in_event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])
    orders = env.from_collection(ORDERS).assign_timestamps_and_watermarks(in_event_time)
    payments = env.from_collection(PAYMENTS).assign_timestamps_and_watermarks(in_event_time)
    rates = env.from_collection(RATES).broadcast(RATES_STATE)

    matches = orders.connect(payments).key_by(lambda order: order[0], lambda payment: payment[0]).process(Match())
    verdicts = matches.key_by(lambda match: match[0]).connect(rates).process(Convert(), Types.STRING())
    verdicts.print().set_parallelism(1)
    env.execute("orders and payments")


if __name__ == "__main__":
    main()
