// Places an order and adds an event about it, in EF Core's transaction. A second one is rolled back. EF Core, Npgsql.
using System.ComponentModel.DataAnnotations.Schema;
using System.Globalization;
using System.Text.Json;
using Microsoft.EntityFrameworkCore;
using Npgsql;
using Xunit;

await using var db = new ShopContext();
await using (var transaction = await db.Database.BeginTransactionAsync())
{
    Console.WriteLine(await Shop.Place(db, "Ada", 42.50m));
    await transaction.CommitAsync();
}
await using (var transaction = await db.Database.BeginTransactionAsync())
{
    await Shop.Place(db, "Bob", 13.00m);
    await transaction.RollbackAsync(); // so would disposing of it without a commit
}

static class Shop
{
    /// <summary>In the transaction that the context has begun.</summary>
    public static async Task<Guid> Place(ShopContext db, string customer, decimal total)
    {
        var order = new Order { Customer = customer, Total = total };
        db.Orders.Add(order);
        await db.SaveChangesAsync(); // the order has its id now

        // A total is text: a JSON number is a double to many a parser.
        var payload = new { id = order.Id, customer, total = total.ToString(CultureInfo.InvariantCulture) };
        var placed = new Event
        {
            Topic = "orders.created",
            AggregateType = "order", // events of one key (type and id of the aggregate) keep their order
            AggregateId = order.Id.ToString(CultureInfo.InvariantCulture),
            Payload = JsonSerializer.Serialize(payload),
        };
        db.Events.Add(placed);
        await db.SaveChangesAsync();
        return placed.Id;
    }

    /// <summary>Writes an invoice, unless the message was received before. Commit, then acknowledge.</summary>
    public static async Task Bill(ShopContext db, Guid message, long order, decimal total)
    {
        var received = db.Database.SqlQuery<bool>($"SELECT inbox.receive('billing', {message}) AS \"Value\"");
        if (await received.SingleAsync())
        {
            await db.Database.ExecuteSqlAsync($"INSERT INTO invoices (order_id, total) VALUES ({order}, {total})");
        }
    }
}

[Table("orders")]
class Order
{
    [Column("id")]
    public long Id { get; set; }

    [Column("customer")]
    public required string Customer { get; set; }

    [Column("total", TypeName = "numeric(12,2)")]
    public decimal Total { get; set; }
}

/// <summary>The columns that an application may write; the others are the relay's, and have defaults.</summary>
[Table("events", Schema = "outbox")]
class Event
{
    // Chosen here: a role that cannot read the table cannot ask for RETURNING.
    [Column("id"), DatabaseGenerated(DatabaseGeneratedOption.None)]
    public Guid Id { get; init; } = Guid.CreateVersion7();

    [Column("topic")]
    public required string Topic { get; init; }

    [Column("aggregate_type")]
    public string? AggregateType { get; init; }

    [Column("aggregate_id")]
    public string? AggregateId { get; init; }

    [Column("payload", TypeName = "json")]
    public required string Payload { get; init; }
}

class ShopContext : DbContext
{
    public DbSet<Order> Orders => Set<Order>();
    public DbSet<Event> Events => Set<Event>();

    protected override void OnModelCreating(ModelBuilder model) =>
        model.Entity<Order>().Property(order => order.Id).UseIdentityAlwaysColumn();

    protected override void OnConfiguring(DbContextOptionsBuilder options)
    {
        var url = new Uri(Environment.GetEnvironmentVariable("DATABASE_URL")!);
        var login = url.UserInfo.Split(':', 2);
        var connection = new NpgsqlConnectionStringBuilder
        {
            Host = url.Host,
            Port = url.Port,
            Database = url.AbsolutePath.TrimStart('/'),
            Username = login[0],
            Password = login[1],
        };
        options.UseNpgsql(connection.ConnectionString);
    }
}

public class ShopTest
{
    /// <summary>The role of DATABASE_URL may read events here: outbox.grant_operate().</summary>
    [Fact]
    public async Task APlacedOrderIsEmitted()
    {
        await using var db = new ShopContext();
        // It is never committed: no relay ever sees the event.
        await using var transaction = await db.Database.BeginTransactionAsync();

        var id = await Shop.Place(db, "Eve", 7.00m);

        // created_at is the start of the transaction: these are the events of this one.
        var events = db.Events.FromSql($"SELECT * FROM outbox.events WHERE created_at = now()").AsNoTracking();
        var emitted = await events.SingleAsync();
        Assert.Equal((id, "orders.created", "order"), (emitted.Id, emitted.Topic, emitted.AggregateType));
        Assert.Equal($$"""{"id":{{emitted.AggregateId}},"customer":"Eve","total":"7.00"}""", emitted.Payload);
    }
}
