<?php

// Places an order that stays, and one that is rolled back.

use Illuminate\Database\Capsule\Manager as DB;

require __DIR__ . '/orders.php';

echo placeOrder('Ada', '42.50'), "\n";
DB::beginTransaction();
placeOrder('Grace', '1.00');
DB::rollBack(); // neither the order nor its event stays
