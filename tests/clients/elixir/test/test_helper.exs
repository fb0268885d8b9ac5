ExUnit.start()
Ecto.Adapters.SQL.Sandbox.mode(Shop.Repo, :manual)
