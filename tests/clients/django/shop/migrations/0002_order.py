from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_outbox")]
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("customer", models.TextField()),
                ("total", models.DecimalField(decimal_places=2, max_digits=12)),
            ],
            options={"db_table": "orders"},
        )
    ]
