<?php

// The script that `make sql` writes, which a project keeps beside its migrations.

use Illuminate\Database\Capsule\Manager as DB;
use Illuminate\Database\Migrations\Migration;

return new class extends Migration {
    public function up(): void
    {
        DB::unprepared(file_get_contents(getenv('OUTBOX_SQL')));
    }
};
