def describe_column(table: str, column: str) -> str:
    """Describe the numbers of one column of a table: how many, mean, median, spread, extremes.

    Args:
        table: The table as CSV, with the names of the columns in the first line.
        column: The name of the column.
    """
    import csv
    import io
    import statistics

    rows = list(csv.DictReader(io.StringIO(table.strip())))
    if not rows or column not in rows[0]:
        names = ", ".join(rows[0]) if rows else "none"
        return f"There is no column '{column}'. There are: {names}."
    values, missing = [], 0
    for row in rows:
        try:
            values.append(float(row[column]))
        except (TypeError, ValueError):
            missing += 1
    if not values:
        return f"No value of '{column}' is a number."
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return (
        f"{column}: {len(values)} numbers, {missing} missing; "
        f"mean {statistics.mean(values):.4g}, median {statistics.median(values):.4g}, "
        f"standard deviation {spread:.4g}, least {min(values):.4g}, greatest {max(values):.4g}"
    )
