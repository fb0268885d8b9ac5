<?php

// Has the autoloaders of Debian's packages stand for composer's, or fails.

$loaders = ['Illuminate/Database/autoload.php', 'Illuminate/Filesystem/autoload.php', 'PhpAmqpLib/autoload.php'];
$missing = array_filter($loaders, fn ($loader) => !is_file("/usr/share/php/$loader"));
if ($missing) {
    exit(1);
}
@mkdir(__DIR__ . '/vendor');
$requires = array_map(fn ($loader) => "require_once '/usr/share/php/$loader';\n", $loaders);
file_put_contents(__DIR__ . '/vendor/autoload.php', "<?php\n" . implode($requires));
