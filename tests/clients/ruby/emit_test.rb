# What an order emits. The role of the tests may read the events: the outbox's owner, or one with grant_operate().
require "minitest/autorun"
require_relative "emit"

class PlaceOrderTest < Minitest::Test
  def test_an_order_emits_that_it_was_created
    Order.transaction do
      id = place_order("Ada", BigDecimal("42.50"))
      event = Order.connection.select_one("SELECT topic, aggregate_id, payload FROM outbox.events WHERE id = '#{id}'")
      payload = JSON.parse(event["payload"])
      assert_equal "orders.created", event["topic"]
      assert_equal payload["id"].to_s, event["aggregate_id"]
      assert_equal "42.50", payload["total"]
      raise ActiveRecord::Rollback
    end
  end
end
