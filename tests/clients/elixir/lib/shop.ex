defmodule Shop.Repo do
  use Ecto.Repo, otp_app: :shop, adapter: Ecto.Adapters.Postgres

  def init(_context, config), do: {:ok, Keyword.put(config, :url, System.fetch_env!("DATABASE_URL"))}
end

defmodule Shop.Application do
  use Application

  def start(_type, _args), do: Supervisor.start_link([Shop.Repo], strategy: :one_for_one)
end

defmodule Shop.Order do
  use Ecto.Schema

  schema "orders" do
    field(:customer, :string)
    field(:total, :decimal)
  end
end

defmodule Shop do
  @moduledoc "Places an order and emits an event about it, in one transaction. Ecto."

  alias Shop.{Order, Repo}

  @emit "SELECT outbox.emit($1, $2::json, aggregate_type => $3, aggregate_id => $4)"

  def place_order(customer, total) do
    Repo.transaction(fn ->
      order = Repo.insert!(%Order{customer: customer, total: total})
      payload = %{id: order.id, customer: order.customer, total: Decimal.to_string(order.total)}
      emit("orders.created", payload, {"order", to_string(order.id)})
    end)
  end

  # No schema stands for outbox.events: what insert!/1 reads back, the application's role may not read.
  def emit(topic, payload, {type, id}) do
    %{rows: [[event_id]]} = Repo.query!(@emit, [topic, payload, type, id])
    Ecto.UUID.load!(event_id)
  end
end
