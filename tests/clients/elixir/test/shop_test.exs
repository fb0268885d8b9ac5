defmodule ShopTest do
  # What an order emits. The role of the tests may read the events: the outbox's owner, or one with grant_operate().
  use ExUnit.Case

  setup do
    :ok = Ecto.Adapters.SQL.Sandbox.checkout(Shop.Repo) # rolls back after the test
  end

  test "an order emits that it was created" do
    {:ok, id} = Shop.place_order("Ada", Decimal.new("42.50"))
    sql = "SELECT topic, aggregate_id, payload FROM outbox.events WHERE id = $1"
    %{rows: [[topic, key, payload]]} = Shop.Repo.query!(sql, [Ecto.UUID.dump!(id)])
    assert topic == "orders.created"
    assert key == to_string(payload["id"])
    assert payload["total"] == "42.50"
  end
end
