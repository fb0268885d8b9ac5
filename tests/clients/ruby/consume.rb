# Writes an invoice for each order, once, however often its message arrives. Bunny, pg.
require "bunny"
require "json"
require "pg"

# Of the database's errors those that pass: the broker delivers the message again.
TRANSIENT = [PG::ConnectionBad, PG::UnableToSend, PG::TransactionRollback, PG::InsufficientResources,
             PG::OperatorIntervention].freeze
RECEIVE = "SELECT inbox.receive('billing', $1)".freeze
INSERT = "INSERT INTO invoices (order_id, total) VALUES ($1, $2)".freeze

def handle(database, message_id, body)
  # Leaving the block commits; an exception rolls back, and the message stays unacknowledged.
  database.transaction do
    if database.exec_params(RECEIVE, [message_id]).getvalue(0, 0) == "t"
      order = JSON.parse(body)
      database.exec_params(INSERT, order.values_at("id", "total"))
    end
  end
end

# What Bunny reports a lost connection to, from threads of its own.
Failures = Struct.new(:ending) do
  def raise(error)
    ending << error
  end
end

# Consumes until something is put into `ending`: an error, which is raised, or SIGTERM's word.
def consume(ending)
  database = PG.connect(ENV.fetch("DATABASE_URL"))
  broker = Bunny.new(ENV.fetch("AMQP_URL"), automatically_recover: false, recover_from_connection_close: false,
                                            session_error_handler: Failures.new(ending)).start
  channel = broker.create_channel
  channel.prefetch(1) # one connection to the database has one transaction at a time
  channel.queue("billing", passive: true).subscribe(manual_ack: true) do |delivery, properties, body|
    handle(database, properties.message_id, body)
    channel.ack(delivery.delivery_tag)
  rescue *TRANSIENT => e
    ending << e
  rescue StandardError => e
    warn "cannot handle message #{properties.message_id}: to the dead-letter exchange: #{e.full_message}"
    channel.reject(delivery.delivery_tag)
  end
  outcome = ending.pop
  raise outcome if outcome.is_a?(Exception)
ensure
  [broker, database].compact.each do |connection|
    connection.close
  rescue StandardError => e
    warn "closing: #{e.class}"
  end
end

ending = Queue.new
stopping = false
trap("TERM") do
  stopping = true
  ending << :stop
end
delay = 1
until stopping
  ending = Queue.new # nothing that the last connections have left
  ending << :stop if stopping
  began = Time.now
  begin
    consume(ending)
  rescue *TRANSIENT, Bunny::Exception, AMQ::Protocol::Error, SystemCallError, Timeout::Error => e
    delay = 1 if Time.now - began > 60 # it worked for a while
    warn "#{e.class}: #{e.message.strip}; connecting again in #{delay} s"
    sleep delay
    delay = [2 * delay, 8].min
  end
end
