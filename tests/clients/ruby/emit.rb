# Places an order and emits an event about it, in one transaction. ActiveRecord.
require "active_record"

class Order < ActiveRecord::Base
end

# No model stands for outbox.events: create! reads the id back, which the application's role may not.
module Outbox
  SQL = "SELECT outbox.emit(?, ?::json, aggregate_type => ?, aggregate_id => ?)".freeze

  def self.emit(topic, payload, key:)
    type, id = key
    model = ActiveRecord::Base
    model.connection.select_value(model.sanitize_sql([SQL, topic, payload.to_json, type, id.to_s]))
  end
end

def place_order(customer, total)
  Order.transaction do
    order = Order.create!(customer: customer, total: total)
    money = ActiveSupport::NumberHelper.number_to_rounded(order.total, precision: 2) # text: "42.50"
    Outbox.emit("orders.created", { id: order.id, customer: order.customer, total: money }, key: ["order", order.id])
  end
end

ActiveRecord::Base.establish_connection(ENV.fetch("DATABASE_URL"))
if $PROGRAM_NAME == __FILE__
  puts place_order("Ada", BigDecimal("42.50"))
  Order.transaction do
    place_order("Grace", BigDecimal("1.00"))
    raise ActiveRecord::Rollback # neither the order nor its event stays
  end
end
