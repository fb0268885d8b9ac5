import Config

config :logger, level: :warning
if config_env() == :test, do: config(:shop, Shop.Repo, pool: Ecto.Adapters.SQL.Sandbox)
