defmodule Shop.MixProject do
  use Mix.Project

  def project do
    [app: :shop, version: "0.0.0", elixir: "~> 1.14", deps: deps()]
  end

  def application do
    [extra_applications: [:logger], mod: {Shop.Application, []}]
  end

  defp deps do
    [
      {:db_connection, "2.7.0"},
      {:decimal, "2.3.0"},
      {:ecto, "3.12.6"},
      {:ecto_sql, "3.12.1"},
      {:jason, "1.4.4"},
      {:postgrex, "0.19.3"},
      {:telemetry, "1.3.0"}
    ]
  end
end
