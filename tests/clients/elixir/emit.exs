# Places an order that stays, and one that is rolled back.
{:ok, id} = Shop.place_order("Ada", Decimal.new("42.50"))
IO.puts(id)

{:error, :refused} =
  Shop.Repo.transaction(fn ->
    {:ok, _id} = Shop.place_order("Grace", Decimal.new("1.00"))
    Shop.Repo.rollback(:refused) # neither the order nor its event stays
  end)
