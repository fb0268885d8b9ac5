from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_outbox")]
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(primary_key=True)),
                ("customer", models.TextField()),
                ("total", models.DecimalField(max_digits=12, decimal_places=2)),
            ],
            options={"db_table": "orders"},
        )
    ]
